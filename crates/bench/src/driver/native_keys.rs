//! Keys that are numbers, as C libraries compare them: in the memory of this machine.
//!
//! Invariant: the order of the numbers is that of the bytes that the workbench has for them.

use credenza::btree::Key;

/// What the library has of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Native {
    /// A number without sign, of so many bytes.
    Unsigned(usize),
    Float,
    Double,
}

impl Native {
    pub(super) const fn width(self) -> usize {
        match self {
            Native::Unsigned(width) => width,
            Native::Float => 4,
            Native::Double => 8,
        }
    }

    /// The number whose bytes in the workbench are `key`; what is shorter is filled up with zeros, what is
    /// longer is cut.
    #[inline]
    pub(super) fn number(self, key: &[u8]) -> [u8; 8] {
        let mut bytes = [0; 8];
        let len = key.len().min(8);
        bytes[..len].copy_from_slice(&key[..len]);
        match self {
            Native::Unsigned(width) => bytes[..width].reverse(),
            Native::Float => {
                let number = f32::from_bytes(&bytes[..4]).unwrap_or_default();
                bytes[..4].copy_from_slice(&number.to_bits().to_le_bytes());
            }
            Native::Double => {
                let number = f64::from_bytes(&bytes).unwrap_or_default();
                bytes = number.to_bits().to_le_bytes();
            }
        }
        bytes
    }

    /// Gives the bytes of a number to `take`; none where it has another width.
    #[inline]
    pub(super) fn with_key<T>(self, number: &[u8], take: impl FnOnce(&[u8]) -> T) -> T {
        let mut bytes = [0; 8];
        let width = self.width();
        if number.len() != width {
            return take(&[]);
        }
        bytes[..width].copy_from_slice(number);
        match self {
            Native::Unsigned(_) => {
                bytes[..width].reverse();
                take(&bytes[..width])
            }
            Native::Float => {
                let [a, b, c, d, ..] = bytes;
                f32::from_bits(u32::from_le_bytes([a, b, c, d])).with_bytes(take)
            }
            Native::Double => f64::from_bits(u64::from_le_bytes(bytes)).with_bytes(take),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Danger: a conversion that is not the other's reverse gives a store keys that nobody asks for.
    fn comes_back<K: Key>(native: Native, number: K, bytes: &[u8]) {
        number.with_bytes(|key| {
            let given = native.number(key);
            assert_eq!(given[..native.width()], *bytes);
            native.with_key(&given[..native.width()], |again| assert_eq!(again, key));
        });
    }

    #[test]
    fn numbers_are_those_of_the_machine_and_come_back() {
        comes_back(Native::Unsigned(1), 200_u8, &[200]);
        comes_back(Native::Unsigned(2), 0x1234_u16, &[0x34, 0x12]);
        comes_back(Native::Unsigned(4), 7_000_000_u32, &7_000_000_u32.to_le_bytes());
        comes_back(Native::Unsigned(8), 1_u64 << 40, &(1_u64 << 40).to_le_bytes());
        for number in [-1.5e-40_f32, -1.0, 0.0, 2.5, f32::MAX] {
            comes_back(Native::Float, number, &number.to_bits().to_le_bytes());
        }
        for number in [f64::MIN, -2.0, 0.0, 1e-310, 3.25] {
            comes_back(Native::Double, number, &number.to_bits().to_le_bytes());
        }
    }

    #[test]
    fn what_is_no_such_number_is_no_key() {
        Native::Double.with_key(&[1, 2, 3], |key| assert!(key.is_empty()));
        assert_eq!(Native::Unsigned(4).number(&[1, 2]), [0, 0, 2, 1, 0, 0, 0, 0]);
    }
}
