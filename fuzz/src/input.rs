//! Bytes as what operations are made of.

/// Bytes of which operations are made; when they are used up, there are no more.
pub(crate) struct Input<'d> {
    pub(crate) left: &'d [u8],
    /// How long the longest value is, and of how many bytes others of many are made.
    longest: usize,
    step: usize,
}

impl<'d> Input<'d> {
    pub(crate) fn new(left: &'d [u8], longest: usize, step: usize) -> Input<'d> {
        Input { left, longest, step }
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.left.split_first()?;
        self.left = rest;
        Some(*first)
    }

    pub(crate) fn key(&mut self) -> Option<Vec<u8>> {
        let byte = self.byte()?;
        // Few keys, some of them long: then many operations meet.
        let len = if byte >= 250 { 300 * usize::from(byte - 249) } else { usize::from(byte % 4) };
        Some(vec![byte % 50; len])
    }

    pub(crate) fn value(&mut self) -> Option<Vec<u8>> {
        let (byte, len) = (self.byte()?, self.byte()?);
        let len = match len {
            255 => self.longest,
            200.. => usize::from(len) * self.step,
            _ => usize::from(len),
        };
        Some(vec![byte; len])
    }
}
