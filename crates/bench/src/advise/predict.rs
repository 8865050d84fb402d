//! From what was measured with parts of the data to what is to be expected with all of them.
//!
//! Files, memory, and what goes through everything: a fixed part, and one that grows with the bytes of keys
//! and values. Times of operations: a fixed part, and so many reads that are waited for, each as long as
//! [`Probe`] says for a file of that size. Both are lines, which are laid through what was measured so
//! that the sum of the squares of the errors, each in relation to its figure, is the least; neither part
//! is below zero.
//!
//! A file is not expected to be smaller than its records: stores begin with a file of some size, and small parts
//! may all fit in it, so that nothing of how it grows is seen.

use super::figures::{Figure, Figures, Trial};
use super::probe::Probe;
use crate::replay::Do;

/// What is expected of a store with records of so many bytes, from trials with other numbers of records.
pub(super) fn expected(trials: &[Trial], records: u64, bytes: u64, probe: &mut Probe) -> Figures {
    let Some(last) = trials.last() else { return Figures::new() };
    let sizes: Vec<f64> = trials.iter().map(|trial| trial.bytes as f64).collect();
    let files = Line::points(trials, &sizes, &Figure::File);
    let file = Line::nearest(&growing(files)).at(bytes as f64);
    let file = file.max(least_file(trials, bytes as f64));
    let reads: Vec<f64> = trials.iter().map(|trial| probe.read_ns(file_of(trial))).collect();
    let read = probe.read_ns(file);
    let of = |name: &Figure| match name {
        Figure::File => file,
        // From one point nobody knows how many reads are in it.
        Figure::Time(operation, _) if operation != Do::SCAN_ALL && trials.len() == 1 => {
            last.figures[name]
        }
        Figure::Time(operation, _) if operation != Do::SCAN_ALL => {
            Line::through(trials, &reads, name).at(read)
        }
        // Of all records together: a store that is made takes its time with none in it, too.
        Figure::Build => {
            let all = |trial: &Trial| {
                let build = trial.figures.get(name).map(|each| each * trial.records as f64);
                Trial {
                    figures: build.map(|all| (name.clone(), all)).into_iter().collect(),
                    ..*trial
                }
            };
            let builds: Vec<Trial> = trials.iter().map(all).collect();
            Line::through(&builds, &sizes, name).at(bytes as f64) / records.max(1) as f64
        }
        _ => Line::through(trials, &sizes, name).at(bytes as f64),
    };
    last.figures.keys().map(|name| (name.clone(), of(name))).collect()
}

/// The sizes of files that say how these grow: where several are as short as each other, they have the size that a new one
/// begins with, and a line through these would be too flat.
fn growing(files: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let least = files.iter().map(|(_, file)| *file).fold(f64::INFINITY, f64::min);
    let longer: Vec<_> = files.iter().copied().filter(|(_, file)| *file > least).collect();
    let is_level = files.len() > longer.len() + 1;
    if is_level && !longer.is_empty() { longer } else { files }
}

fn file_of(trial: &Trial) -> f64 {
    trial.figures.get(&Figure::File).copied().unwrap_or(0.0)
}

/// What a file with so many bytes of records takes at least: these, or as much less as it took of a part, where it
/// is compressed, or has no file.
fn least_file(trials: &[Trial], bytes: f64) -> f64 {
    let of_its_bytes = |trial: &Trial| file_of(trial) / trial.bytes.max(1) as f64;
    bytes * trials.iter().map(of_its_bytes).fold(1.0, f64::min)
}

/// A fixed part, and one in proportion.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    fixed: f64,
    slope: f64,
}

impl Line {
    fn at(self, x: f64) -> f64 {
        self.fixed + self.slope * x
    }

    /// The line for a figure of these trials over these places.
    fn through(trials: &[Trial], places: &[f64], name: &Figure) -> Line {
        Line::nearest(&Line::points(trials, places, name))
    }

    /// A figure of these trials over these places.
    fn points(trials: &[Trial], places: &[f64], name: &Figure) -> Vec<(f64, f64)> {
        let figure = |(trial, x): (&Trial, &f64)| Some((*x, *trial.figures.get(name)?));
        trials.iter().zip(places).filter_map(figure).collect()
    }

    /// The line that is nearest to these points. One alone is all in proportion.
    fn nearest(points: &[(f64, f64)]) -> Line {
        let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (x, y) in points {
            let weight = 1.0 / (y * y).max(1e-12);
            w += weight;
            wx += weight * x;
            wy += weight * y;
            wxx += weight * x * x;
            wxy += weight * x * y;
        }
        let spread = w * wxx - wx * wx;
        let is_one_place = spread <= 1e-9 * w * wxx;
        let slope = if is_one_place { -1.0 } else { (w * wxy - wx * wy) / spread };
        let fixed = if is_one_place { -1.0 } else { (wy - slope * wx) / w };
        match (fixed >= 0.0, slope >= 0.0) {
            (true, true) => Line { fixed, slope },
            (true, false) => Line { fixed: wy / w, slope: 0.0 },
            (false, _) if wxx > 0.0 => Line { fixed: 0.0, slope: wxy / wxx },
            (false, _) => Line { fixed: if w > 0.0 { wy / w } else { 0.0 }, slope: 0.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::Of;
    use super::*;

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() <= 1e-6 * other.abs().max(1.0)
    }

    #[test]
    fn a_line_is_found_again() {
        for (fixed, slope) in [(5.0, 2.0), (0.0, 3.0), (7.0, 0.0)] {
            let points = [1.0, 4.0, 16.0].map(|x| (x, fixed + slope * x));
            let line = Line::nearest(&points);
            assert!(near(line.fixed, fixed) && near(line.slope, slope), "{line:?}");
        }
    }

    #[test]
    fn no_part_is_below_zero() {
        // Falling: it stays as it is. Starting below nothing: in proportion.
        let falling = Line::nearest(&[(1.0, 10.0), (2.0, 8.0), (3.0, 6.0)]);
        assert!(falling.slope == 0.0 && (6.0..10.0).contains(&falling.fixed), "{falling:?}");
        let steep = Line::nearest(&[(1.0, 1.0), (2.0, 4.0), (3.0, 7.0)]);
        assert!(steep.fixed == 0.0 && (1.0..2.4).contains(&steep.slope), "{steep:?}");
    }

    #[test]
    fn few_points_are_enough_and_odd_ones_do_no_harm() {
        let one = Line::nearest(&[(4.0, 20.0)]);
        assert!(near(one.at(8.0), 40.0), "{one:?}");
        let twice = Line::nearest(&[(4.0, 20.0), (4.0, 20.0)]);
        assert!(near(twice.at(4.0), 20.0), "{twice:?}");
        for points in [&[][..], &[(0.0, 0.0)], &[(0.0, 5.0)], &[(1.0, 0.0), (2.0, 0.0)]] {
            let line = Line::nearest(points);
            assert!(line.at(10.0).is_finite() && line.at(10.0) >= 0.0, "{points:?}: {line:?}");
        }
    }

    #[test]
    fn a_file_is_not_expected_to_be_smaller_than_its_records() {
        let mut probe = Probe::new(None);
        let mut file_with = |bytes, files: [f64; 2]| {
            let trial = |(bytes, file)| Trial {
                records: bytes / 10,
                bytes,
                figures: Figures::from([(Figure::File, file)]),
            };
            let trials: Vec<Trial> = [4_000, 16_000].into_iter().zip(files).map(trial).collect();
            expected(&trials, bytes / 10, bytes, &mut probe)[&Figure::File]
        };
        // Both parts fit in what a new store takes.
        assert!(near(file_with(264_000, [45_000.0; 2]), 264_000.0));
        assert!(near(file_with(20_000, [45_000.0; 2]), 45_000.0));
        // It makes its records smaller, or has no file.
        assert!(near(file_with(160_000, [2_000.0, 8_000.0]), 80_000.0));
        assert!(near(file_with(160_000, [0.0; 2]), 0.0));
    }

    /// Two parts of which both fit in what a new store takes made the line too flat: 353 KB were expected, and there were 414.
    #[test]
    fn parts_that_fit_in_a_new_file_say_nothing_of_how_it_grows() {
        let trial = |(bytes, file)| Trial {
            records: bytes / 20,
            bytes,
            figures: Figures::from([(Figure::File, file)]),
        };
        let trials: Vec<Trial> = [(5_500, 45_056.0), (22_000, 45_056.0), (88_000, 118_784.0)]
            .into_iter()
            .map(trial)
            .collect();
        let file = expected(&trials, 17_600, 353_000, &mut Probe::new(None))[&Figure::File];
        assert!((380_000.0..480_000.0).contains(&file), "{file}");
    }

    #[test]
    fn sizes_grow_with_the_bytes_and_times_with_what_a_read_takes() {
        let mut probe = Probe::new(None);
        let get = Figure::Time("get".to_owned(), Of::P50);
        let all = Figure::Time(Do::SCAN_ALL.to_owned(), Of::Mean);
        let mut trial = |records: u64| {
            let bytes = records * 10;
            let file = 4096.0 + 1.5 * bytes as f64;
            let figures = Figures::from([
                (Figure::File, file),
                (Figure::Memory, 2.0 * file),
                (Figure::Build, 50.0 + 1e6 / records as f64),
                (all.clone(), 3.0 * bytes as f64),
                (get.clone(), 20.0 + 4.0 * probe.read_ns(file)),
            ]);
            Trial { records, bytes, figures }
        };
        let trials = [1_000, 8_000, 60_000].map(&mut trial);
        let whole = trial(500_000);
        let expected = expected(&trials, whole.records, whole.bytes, &mut probe);
        for (name, value) in &whole.figures {
            let error = expected[name] / value - 1.0;
            assert!(error.abs() < 0.01, "{name}: {} for {value}", expected[name]);
        }
    }
}
