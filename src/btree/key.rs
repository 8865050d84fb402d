//! Keys that are not bytes, but numbers or text: as bytes whose order is theirs.
//!
//! A tree compares bytes and nothing else. That is what makes it fast: prefixes are cut, and heads
//! compared many at a time. So an order of one's own is not a function that compares, which every
//! step of every lookup would have to call, but one that makes bytes of a key, called once. A table
//! records the name of its order, and is only opened as what it is.

use crate::{Error, Result};
use std::fmt::{self, Display, LowerExp};
use std::str::FromStr;

/// The order of the keys of a table, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyType {
    /// Bytes, compared one by one: "binary".
    #[default]
    Binary,
    /// Text in UTF-8, in the order of its code points: "string".
    String,
    /// Numbers of 8 bits without sign: "u8".
    U8,
    /// Numbers of 16 bits without sign: "u16".
    U16,
    /// Numbers of 32 bits without sign: "u32".
    U32,
    /// Numbers of 64 bits without sign: "u64".
    U64,
    /// Numbers of 64 bits with a sign: "i64".
    I64,
    /// Floating-point numbers of 32 bits in the total order of IEEE 754: "f32".
    F32,
    /// Floating-point numbers of 64 bits in the total order of IEEE 754: "f64".
    F64,
    /// What a program made of its own [`Key`], by the name that it gave.
    Other(String),
}

/// Those with a number of their own in the file, in the order of these.
const KNOWN: [(&str, KeyType); 9] = [
    ("binary", KeyType::Binary),
    ("string", KeyType::String),
    ("u8", KeyType::U8),
    ("u16", KeyType::U16),
    ("u32", KeyType::U32),
    ("u64", KeyType::U64),
    ("i64", KeyType::I64),
    ("f32", KeyType::F32),
    ("f64", KeyType::F64),
];
/// The number of those that have none.
pub(crate) const OTHER: u8 = 255;

impl KeyType {
    /// All that are not a program's own.
    pub fn known() -> impl Iterator<Item = KeyType> {
        KNOWN.into_iter().map(|(_, known)| known)
    }

    /// That of this name; one that is not known is a program's own.
    pub fn named(name: &str) -> KeyType {
        let known = KNOWN.into_iter().find(|(known, _)| *known == name);
        known.map_or_else(|| KeyType::Other(name.to_owned()), |(_, known)| known)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            KeyType::Other(name) => name,
            known => KNOWN.iter().find(|(_, key)| key == known).map_or("", |(name, _)| name),
        }
    }

    /// Its number in the file.
    pub(crate) fn code(&self) -> u8 {
        KNOWN.iter().position(|(_, key)| key == self).map_or(OTHER, |i| i as u8)
    }

    /// That of a number in the file; `name` is that of a program's own.
    pub(crate) fn of(code: u8, name: &str) -> KeyType {
        let known = KNOWN.get(usize::from(code)).map(|(_, known)| known.clone());
        known.unwrap_or_else(|| KeyType::Other(name.to_owned()))
    }

    /// The bytes of a key written as text: a number in decimal digits, and anything else as it is. A
    /// number may have a plus sign and zeros before it; a floating-point one may have a point and an exponent, as
    /// "-1.5e300", or be "inf" or "nan", also with a minus, and "nan(0x1)" is one of the others, by its bits.
    ///
    /// # Errors
    /// The text is none of this type.
    pub fn parse(&self, text: &[u8]) -> Result<Vec<u8>> {
        match self {
            KeyType::Binary | KeyType::Other(_) => Ok(text.to_vec()),
            KeyType::String => self.utf8(text).map(|text| text.as_bytes().to_vec()),
            KeyType::U8 => self.number::<u8>(text),
            KeyType::U16 => self.number::<u16>(text),
            KeyType::U32 => self.number::<u32>(text),
            KeyType::U64 => self.number::<u64>(text),
            KeyType::I64 => self.number::<i64>(text),
            KeyType::F32 => self.float::<f32>(text),
            KeyType::F64 => self.float::<f64>(text),
        }
    }

    fn utf8<'t>(&self, text: &'t [u8]) -> Result<&'t str> {
        std::str::from_utf8(text).map_err(|_| self.no_key(text))
    }

    fn number<N: Key + FromStr>(&self, text: &[u8]) -> Result<Vec<u8>> {
        let number = self.utf8(text)?.parse::<N>().map_err(|_| self.no_key(text))?;
        Ok(number.to_bytes())
    }

    fn float<F: Float>(&self, text: &[u8]) -> Result<Vec<u8>> {
        let no_key = || self.no_key(text);
        let text = self.utf8(text)?;
        let (is_negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let bits = rest.strip_prefix("nan(0x").and_then(|rest| rest.strip_suffix(')'));
        if let Some(bits) = bits {
            // It takes a plus sign.
            let is_digits = bits.bytes().all(|digit| digit.is_ascii_hexdigit());
            let bits = u64::from_str_radix(bits, 16).ok();
            return Ok(bits
                .filter(|_| is_digits)
                .and_then(|bits| F::nan(is_negative, bits))
                .ok_or_else(no_key)?
                .to_bytes());
        }
        let number = text.parse::<F>().map_err(|_| no_key())?;
        // Too large or too small for the type, and so another number.
        let is_none = |digits: &str| !digits.contains(|c: char| matches!(c, '1'..='9'));
        let digits = rest.split(['e', 'E']).next().unwrap_or_default();
        if number.is_infinite() && text.contains(|c: char| c.is_ascii_digit())
            || number.is_zero() && !is_none(digits)
        {
            return Err(no_key());
        }
        Ok(number.to_bytes())
    }

    fn no_key(&self, text: &[u8]) -> Error {
        let text = text.escape_ascii();
        Error::invalid(format!("\"{text}\" is no key of type {}", self.name()))
    }

    /// A key as text, as [`KeyType::parse`] reads it; the bytes as they are if they are no key of
    /// this type.
    pub fn show(&self, key: &[u8]) -> Vec<u8> {
        fn digits<N: Key<Owned = N> + Display>(key: &[u8]) -> Option<Vec<u8>> {
            N::from_bytes(key).map(|number| number.to_string().into_bytes())
        }
        let text = match self {
            KeyType::Binary | KeyType::String | KeyType::Other(_) => None,
            KeyType::U8 => digits::<u8>(key),
            KeyType::U16 => digits::<u16>(key),
            KeyType::U32 => digits::<u32>(key),
            KeyType::U64 => digits::<u64>(key),
            KeyType::I64 => digits::<i64>(key),
            KeyType::F32 => f32::from_bytes(key).map(Float::text),
            KeyType::F64 => f64::from_bytes(key).map(Float::text),
        };
        text.unwrap_or_else(|| key.to_vec())
    }
}

impl Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Digits, sign and point of a floating-point number that is shown without an exponent, at most.
const LONGEST_PLAIN: usize = 24;

/// Floating-point numbers, of which many are none.
trait Float: Key<Owned = Self> + FromStr + Display + LowerExp + Sized {
    /// One that is no number, by its bits.
    fn nan(is_negative: bool, bits: u64) -> Option<Self>;
    /// The sign, and the bits, of one that is no number.
    fn of_nan(&self) -> Option<(bool, u64)>;
    fn is_infinite(&self) -> bool;
    fn is_zero(&self) -> bool;

    fn text(self) -> Vec<u8> {
        let text = match self.of_nan() {
            None => {
                let plain = self.to_string();
                // As numbers with hundreds of zeros are read by nobody.
                if plain.len() <= LONGEST_PLAIN { plain } else { format!("{self:e}") }
            }
            Some((is_negative, bits)) => {
                let sign = if is_negative { "-" } else { "" };
                format!("{sign}nan(0x{bits:x})")
            }
        };
        text.into_bytes()
    }
}

macro_rules! floats {
    ($($float:ty, $bits:ty, $sign:expr;)*) => {$(
        impl Float for $float {
            fn nan(is_negative: bool, bits: u64) -> Option<$float> {
                let bits = <$bits>::try_from(bits).ok().filter(|bits| bits & $sign == 0)?;
                let number = <$float>::from_bits(<$float>::INFINITY.to_bits() | bits);
                let number = if is_negative { -number } else { number };
                number.is_nan().then_some(number)
            }

            fn of_nan(&self) -> Option<(bool, u64)> {
                let bits = self.to_bits() & !(<$float>::INFINITY.to_bits() | $sign);
                self.is_nan().then(|| (self.is_sign_negative(), u64::from(bits)))
            }

            fn is_infinite(&self) -> bool {
                <$float>::is_infinite(*self)
            }

            fn is_zero(&self) -> bool {
                *self == 0.0
            }
        }
    )*};
}

floats! {
    f32, u32, SIGN_32;
    f64, u64, SIGN_64;
}

/// Bytes of the keys of a type; `None` if they have various lengths.
pub(crate) fn width(code: u8) -> Option<usize> {
    match KNOWN.get(usize::from(code))?.1 {
        KeyType::U8 => Some(1),
        KeyType::U16 => Some(2),
        KeyType::U32 | KeyType::F32 => Some(4),
        KeyType::U64 | KeyType::I64 | KeyType::F64 => Some(8),
        _ => None,
    }
}

/// What can be the key of a record: bytes whose order is that of the keys can be made of it.
///
/// For an order of your own, as that of names of hosts read from their end, implement it for a type
/// of your own. The bytes are compared as [`slice::cmp`](Ord::cmp) does; equal bytes are one key.
///
/// ```
/// use credenza::btree::{BTree, Key, TableOptions};
///
/// /// A host name; those of one domain are beside each other.
/// struct Host(String);
///
/// impl Key for Host {
///     type Owned = Host;
///     const NAME: &'static str = "example.host";
///     fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
///         f(self.0.split('.').rev().collect::<Vec<_>>().join(".").as_bytes())
///     }
///     fn from_bytes(bytes: &[u8]) -> Option<Host> {
///         let text = std::str::from_utf8(bytes).ok()?;
///         Some(Host(text.split('.').rev().collect::<Vec<_>>().join(".")))
///     }
/// }
///
/// let store = BTree::in_memory()?;
/// let mut transaction = store.write()?;
/// transaction.create_table_with("hosts", &TableOptions::of_keys::<Host>())?;
/// let mut hosts = transaction.table("hosts")?.expect("it was just made");
/// for name in ["www.example.org", "example.com", "mail.example.org"] {
///     hosts.typed::<Host>()?.insert(&Host(name.into()), b"")?;
/// }
/// transaction.commit()?;
/// let snapshot = store.read()?;
/// let hosts = snapshot.table("hosts")?.expect("it was just made").typed::<Host>()?;
/// let names: Vec<_> = hosts.iter().map(|pair| Ok(pair?.0.0)).collect::<credenza::Result<_>>()?;
/// assert_eq!(names, ["example.com", "mail.example.org", "www.example.org"]);
/// # Ok::<(), credenza::Error>(())
/// ```
pub trait Key {
    /// What comes back when a key is read.
    type Owned;
    /// The name of the type, which stands in the file of a table with such keys.
    const NAME: &'static str;

    /// Calls `f` with the bytes that stand for the key.
    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R;

    /// The key that these bytes stand for; `None` if there is none.
    fn from_bytes(bytes: &[u8]) -> Option<Self::Owned>;

    /// The bytes that stand for the key.
    fn to_bytes(&self) -> Vec<u8> {
        self.with_bytes(<[u8]>::to_vec)
    }
}

impl Key for [u8] {
    type Owned = Vec<u8>;
    const NAME: &'static str = "binary";

    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
}

/// Bytes that are always as many.
impl<const N: usize> Key for [u8; N] {
    type Owned = [u8; N];
    const NAME: &'static str = <[u8] as Key>::NAME;

    #[inline]
    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self)
    }

    #[inline]
    fn from_bytes(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
}

impl Key for str {
    type Owned = String;
    const NAME: &'static str = "string";

    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self.as_bytes())
    }

    fn from_bytes(bytes: &[u8]) -> Option<String> {
        String::from_utf8(bytes.to_vec()).ok()
    }
}

/// Numbers: their bits, turned so that their order is that of numbers without sign, the highest byte
/// first.
macro_rules! numbers {
    ($($number:ty, $name:literal, $bits:ty, $to:expr, $from:expr;)*) => {$(
        impl Key for $number {
            type Owned = $number;
            const NAME: &'static str = $name;

            #[inline]
            fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
                let to: fn($number) -> $bits = $to;
                f(&to(*self).swap_bytes().to_le_bytes())
            }

            #[inline]
            fn from_bytes(bytes: &[u8]) -> Option<$number> {
                let from: fn($bits) -> $number = $from;
                Some(from(<$bits>::from_le_bytes(bytes.try_into().ok()?).swap_bytes()))
            }
        }
    )*};
}

const SIGN_32: u32 = 1 << 31;
const SIGN_64: u64 = 1 << 63;

numbers! {
    u8, "u8", u8, |n| n, |n| n;
    u16, "u16", u16, |n| n, |n| n;
    u32, "u32", u32, |n| n, |n| n;
    u64, "u64", u64, |n| n, |n| n;
    i64, "i64", u64, |n| n as u64 ^ SIGN_64, |n| (n ^ SIGN_64) as i64;
    f32, "f32", u32, |n| turn_32(n.to_bits()), |n| f32::from_bits(turn_back_32(n));
    f64, "f64", u64, |n| turn_64(n.to_bits()), |n| f64::from_bits(turn_back_64(n));
}

/// The greater a negative number's bits, the less it is.
fn turn_32(bits: u32) -> u32 {
    if bits & SIGN_32 == 0 { bits | SIGN_32 } else { !bits }
}

fn turn_back_32(bits: u32) -> u32 {
    if bits & SIGN_32 == 0 { !bits } else { bits ^ SIGN_32 }
}

fn turn_64(bits: u64) -> u64 {
    if bits & SIGN_64 == 0 { bits | SIGN_64 } else { !bits }
}

fn turn_back_64(bits: u64) -> u64 {
    if bits & SIGN_64 == 0 { !bits } else { bits ^ SIGN_64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep_order<K: Key<Owned = K> + PartialEq + fmt::Debug>(ascending: &[K]) {
        let bytes: Vec<Vec<u8>> = ascending.iter().map(Key::to_bytes).collect();
        assert!(bytes.is_sorted_by(|a, b| a < b), "{ascending:?}: {bytes:?}");
        for (key, bytes) in ascending.iter().zip(&bytes) {
            assert_eq!(width(KeyType::named(K::NAME).code()), Some(bytes.len()));
            assert_eq!(K::from_bytes(bytes).as_ref(), Some(key));
            assert!(K::from_bytes(&bytes[1..]).is_none());
        }
    }

    #[test]
    fn bytes_of_numbers_have_their_order() {
        keep_order(&[0u8, 1, 127, 128, 255]);
        keep_order(&[0u16, 1, 255, 256, u16::MAX]);
        keep_order(&[0u32, 1, 255, 256, 1 << 24, u32::MAX]);
        keep_order(&[0u64, 1, 255, 256, 1 << 56, u64::MAX]);
        keep_order(&[i64::MIN, -256, -1, 0, 1, 255, i64::MAX]);
        keep_order(&[f32::NEG_INFINITY, -1.5, -f32::MIN_POSITIVE, -0.0, 0.0, 1e-40, f32::INFINITY]);
        keep_order(&[f64::NEG_INFINITY, -1e300, -1.0, -0.0, 0.0, 5e-324, 1.0, f64::INFINITY]);
    }

    #[test]
    fn bytes_of_one_length_are_read_as_such() {
        let store = crate::btree::BTree::in_memory().unwrap();
        let mut transaction = store.write().unwrap();
        let mut table = transaction.main();
        let mut typed = table.typed::<[u8; 4]>().unwrap();
        typed.insert(b"left", b"1").unwrap();
        typed.insert(b"bend", b"2").unwrap();
        let keys = typed.read().iter().map(|pair| pair.unwrap().0);
        assert!(keys.eq([*b"bend", *b"left"]));
        table.insert(b"longer", b"3").unwrap();
        let typed = table.read().typed::<[u8; 4]>().unwrap();
        assert_eq!(typed.get(b"left").unwrap(), Some(&b"1"[..]));
        let error = typed.last().unwrap_err().to_string();
        assert!(error.contains("longer or shorter"), "{error}");
    }

    #[test]
    fn keys_are_read_as_they_are_shown() {
        let cases = [
            (KeyType::U8, "255"),
            (KeyType::U16, "65535"),
            (KeyType::U32, "0"),
            (KeyType::U64, "18446744073709551615"),
            (KeyType::I64, "-9223372036854775808"),
            (KeyType::F32, "-0.1"),
            (KeyType::F64, "1.7976931348623157"),
            (KeyType::F64, "-inf"),
            (KeyType::F64, "nan(0x8000000000000)"),
            (KeyType::F64, "-nan(0x1)"),
            (KeyType::F32, "nan(0x400000)"),
            (KeyType::String, "été"),
            (KeyType::Binary, "\0x"),
        ];
        for (key, text) in cases {
            let bytes = key.parse(text.as_bytes()).unwrap();
            assert_eq!(key.show(&bytes), text.as_bytes(), "{key}");
            assert_eq!(KeyType::named(key.name()), key);
            assert_eq!(KeyType::of(key.code(), ""), key);
        }
        let none = [
            (KeyType::U8, "256"),
            (KeyType::U64, "-1"),
            (KeyType::U64, " 1"),
            (KeyType::F64, "one"),
            (KeyType::F64, "1e400"),
            (KeyType::F64, "-1e-400"),
            (KeyType::F32, "5e-324"),
            (KeyType::F64, "nan(0x+1)"),
            (KeyType::F32, "nan(0x0)"),
            (KeyType::F32, "nan(0x80000000)"),
        ];
        for (key, text) in none {
            let error = key.parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains(key.name()), "{error}");
        }
        assert!(KeyType::String.parse(b"\xff").is_err());
        assert_eq!(KeyType::named("mine").name(), "mine");
    }
}
