//! Segments whose headers are damaged, for who recovers a store: the log before them and their records tell of them.

use super::core::Core;
use super::record::Kind;
use super::scan::Span;
use super::view::Holds;
use crate::Result;

impl Core {
    /// The segments of a store that may be damaged, in the order of their numbers, from `oldest` on: also those without a
    /// whole header, which are led to by the end of the one before, or hold records of the number `oldest`. What is not of
    /// them is told by the checksums of records, which hold for one place and number.
    pub(super) fn segments_to_recover(&self, held: &impl Holds, oldest: u64) -> Result<Vec<Span>> {
        let mut found = self.segments(held, oldest);
        let mut known: Vec<Span> = found.values().flatten().copied().collect();
        known.sort_unstable_by_key(|segment| segment.unit);
        let mut looked_at = known.clone();
        if let Some(first) = self.headless_first(held, &known, oldest) {
            looked_at.push(first);
            found.insert(oldest, vec![first]);
        }
        while let Some(segment) = looked_at.pop() {
            // To look for its end all of it is read.
            if found.contains_key(&segment.sequence.wrapping_add(1)) {
                continue;
            }
            if let Some(next) = self.headless_after(held, &known, segment)? {
                found.entry(next.sequence).or_default().push(next);
                looked_at.push(next);
            }
        }
        Ok(found.into_values().flatten().collect())
    }

    /// The segment in which the log begins, if that is not among those with a header.
    fn headless_first(&self, held: &impl Holds, known: &[Span], oldest: u64) -> Option<Span> {
        if known.iter().any(|one| one.sequence == oldest) {
            return None;
        }
        let spans = (0..self.units()).filter_map(|unit| self.span_of(known, unit, oldest));
        spans.into_iter().find(|span| self.checked_record(held, *span, span.first()).is_ok())
    }

    /// The segment that the end of another leads to, if its header is damaged.
    fn headless_after(
        &self,
        held: &impl Holds,
        known: &[Span],
        segment: Span,
    ) -> Result<Option<Span>> {
        let mut end_at = None;
        self.each_whole(held, segment, |at, record| {
            end_at = (record.header.kind == Kind::End).then_some(at);
            Ok(())
        })?;
        let Some((unit, half)) = end_at.and_then(|at| self.named_by_end(at)) else {
            return Ok(None);
        };
        if self.segment_at(held, unit).is_some() {
            // That, or what has taken its place since.
            return Ok(None);
        }
        let number = number_after(segment.sequence, half);
        Ok(number.and_then(|number| self.span_of(known, unit, number)))
    }

    /// From this unit to where the next segment begins that has a header; `None` if it is within one. How long the segment
    /// is was in its own: it may end before, where another without a header begins.
    fn span_of(&self, known: &[Span], unit: u64, sequence: u64) -> Option<Span> {
        let behind = known.partition_point(|one| one.unit <= unit);
        let before = behind.checked_sub(1).and_then(|at| known.get(at));
        if before.is_some_and(|one| unit - one.unit < one.units) {
            return None;
        }
        let next = known.get(behind).map_or(self.units(), |one| one.unit);
        let units = next.checked_sub(unit)?;
        (units > 0).then_some(Span { unit, units, sequence })
    }
}

/// The first number behind this one that has this lower half; the next one where that is not known. Damage may leave
/// none.
fn number_after(sequence: u64, half: Option<u32>) -> Option<u64> {
    let next = sequence.checked_add(1)?;
    let more = half.map_or(0, |half| half.wrapping_sub(next as u32));
    next.checked_add(u64::from(more))
}

#[cfg(test)]
mod tests {
    use super::number_after;

    #[test]
    fn the_lower_half_tells_the_number() {
        assert_eq!(number_after(7, Some(8)), Some(8));
        assert_eq!(number_after(7, Some(12)), Some(12));
        assert_eq!(number_after(7, None), Some(8));
        assert_eq!(number_after(0xffff_ffff, Some(0)), Some(1 << 32));
        assert_eq!(number_after(0x5_ffff_fff0, Some(3)), Some(0x6_0000_0003));
        assert_eq!(number_after(u64::MAX, None), None);
        assert_eq!(number_after(u64::MAX - 1, Some(0)), None);
    }
}
