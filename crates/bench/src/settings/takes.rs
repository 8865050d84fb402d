//! What a driver says that its store takes.

use super::{Codec, Name, Value, bytes_text};
use std::collections::BTreeMap;

/// A setting that a store takes, with the values that it takes.
pub(crate) type Takes = (Name, Values);

/// That a store reads its files through a map, and no other way.
pub(crate) const ALWAYS_MAPPED: Takes = (Name::Mmap, Values::Always(true));

/// The values that a store takes for a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values {
    /// Powers of two from the one to the other.
    Powers(u64, u64),
    /// So many bytes at least.
    AtLeast(u64),
    /// The same, or all that there is.
    AtLeastOrUnlimited(u64),
    /// From the one to the other.
    Between(u64, u64),
    /// Every value that the setting has: of a switch or an advice.
    Either,
    /// The one value of a switch that the store has anyway: there is nothing to be set.
    Always(bool),
    Codecs(&'static [Codec]),
}

impl Values {
    pub(super) fn has(self, value: Value) -> bool {
        match (self, value) {
            (Values::Powers(least, most), Value::Bytes(bytes)) => {
                bytes.is_power_of_two() && (least..=most).contains(&bytes)
            }
            (Values::AtLeast(least) | Values::AtLeastOrUnlimited(least), Value::Bytes(bytes)) => {
                bytes >= least
            }
            (Values::AtLeastOrUnlimited(_), Value::Unlimited) => true,
            (Values::Between(least, most), Value::Bytes(number) | Value::Count(number)) => {
                (least..=most).contains(&number)
            }
            (Values::Either, Value::Switch(_) | Value::Random(_)) => true,
            (Values::Always(is_on), Value::Switch(wanted)) => wanted == is_on,
            (Values::Codecs(codecs), Value::Codec(codec)) => codecs.contains(&codec),
            _ => false,
        }
    }

    pub(super) fn text(self, name: Name) -> String {
        match self {
            Values::Powers(least, most) => {
                format!("powers of two from {} to {}", bytes_text(least), bytes_text(most))
            }
            Values::AtLeast(least) => format!("{} or more", bytes_text(least)),
            Values::AtLeastOrUnlimited(least) => {
                format!("{} or more, unlimited", bytes_text(least))
            }
            Values::Between(least, most) => format!("{least} to {most}"),
            Values::Either if name == Name::Advice => "normal, random".to_owned(),
            Values::Either => "on, off".to_owned(),
            Values::Always(is_on) => format!("{}, as always", Value::Switch(is_on)),
            Values::Codecs(codecs) => {
                codecs.iter().map(|codec| codec.text()).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// What a store takes: setting and values, in words.
pub(crate) fn in_words(takes: &[Takes]) -> BTreeMap<&'static str, String> {
    takes.iter().map(|(name, values)| (name.text(), values.text(*name))).collect()
}
