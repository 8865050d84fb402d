//! Lengths that are drawn: bytes of keys and values, records of scans.

use crate::rng::Rng;
use credenza::{Error, Result};
use rand_distr::{Distribution as _, Zipf};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Lengths and how often each comes. In options and workload files it is text: `N`, `MIN..MAX` or
/// `zipfian:MIN..MAX`, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "NumberOrText", into = "String")]
pub(crate) struct Lengths {
    least: usize,
    most: usize,
    /// Whether short ones come more often, by Zipf's law with YCSB's exponent; if not, all as often.
    is_zipfian: bool,
}

impl Lengths {
    /// More is no length of anything that is measured.
    pub(super) const LIMIT: usize = 1 << 30;
    /// What a parameter of this kind is.
    pub(super) const WHAT: &str = "a number, MIN..MAX or zipfian:MIN..MAX";
    const THETA: f64 = 0.99;

    pub(crate) const fn uniform(least: usize, most: usize) -> Lengths {
        Lengths { least, most, is_zipfian: false }
    }

    pub(crate) const fn fixed(len: usize) -> Lengths {
        Lengths::uniform(len, len)
    }

    /// What lengths are on average, about.
    pub(crate) fn average(&self) -> f64 {
        let (least, most) = (self.least as f64, self.most as f64);
        if self.is_zipfian {
            // By Zipf's law with an exponent of about 1.
            least + (most - least) / (most - least + 2.0).ln()
        } else {
            f64::midpoint(least, most)
        }
    }

    pub(crate) fn least(&self) -> usize {
        self.least
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// A length; where there is but one, nothing is drawn.
    #[inline]
    pub(crate) fn draw(&self, rng: &mut Rng) -> usize {
        let lengths = self.most - self.least + 1;
        if lengths == 1 {
            return self.least;
        }
        if !self.is_zipfian {
            return self.least + rng.index(lengths);
        }
        let law = Zipf::new(lengths as f64, Lengths::THETA).expect("there is a length");
        self.least + (law.sample(rng) as usize).clamp(1, lengths) - 1
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lengths { least, most, is_zipfian } = self;
        match (is_zipfian, least == most) {
            (_, true) => write!(f, "{least}"),
            (false, false) => write!(f, "{least}..{most}"),
            (true, false) => write!(f, "zipfian:{least}..{most}"),
        }
    }
}

impl From<Lengths> for String {
    fn from(lengths: Lengths) -> String {
        lengths.to_string()
    }
}

impl TryFrom<NumberOrText> for Lengths {
    type Error = Error;

    fn try_from(text: NumberOrText) -> Result<Lengths> {
        text.to_string().parse()
    }
}

/// A number in a workload file, with or without quotes, or a word.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a whole number or a string")]
pub(super) enum NumberOrText {
    Number(u64),
    Text(String),
}

impl fmt::Display for NumberOrText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NumberOrText::Number(number) => number.fmt(f),
            NumberOrText::Text(text) => text.fmt(f),
        }
    }
}

impl FromStr for Lengths {
    type Err = Error;

    fn from_str(text: &str) -> Result<Lengths> {
        let (is_zipfian, range) = match text.strip_prefix("zipfian:") {
            Some(range) => (true, range),
            None => (false, text),
        };
        let (least, most) = range.split_once("..").unwrap_or((range, range));
        match (least.parse(), most.parse()) {
            (Ok(least), Ok(most)) if least <= most && most <= Lengths::LIMIT => {
                Ok(Lengths { least, most, is_zipfian })
            }
            _ => Err(Error::invalid(format!(
                "'{text}' is no length: say a number, MIN..MAX (each as often) or zipfian:MIN..MAX \
                 (short ones more often), at most {}",
                Lengths::LIMIT
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_drawn_from_end_to_end() {
        let mut rng = Rng::new(3, 0);
        let mut drawn = |text: &str| {
            let lengths: Lengths = text.parse().unwrap();
            assert_eq!(lengths.to_string(), text);
            let mut counts = vec![0_u32; 12];
            (0..10_000).for_each(|_| counts[lengths.draw(&mut rng)] += 1);
            counts
        };
        assert_eq!(drawn("7")[7], 10_000);
        let uniform = drawn("1..10");
        assert_eq!((uniform[0], uniform[11]), (0, 0));
        assert!(uniform[1..11].iter().all(|count| (850..1150).contains(count)), "{uniform:?}");
        // One in 2.95: 1 / (1 + 1 / 2^0.99 + ... + 1 / 10^0.99).
        let zipfian = drawn("zipfian:2..11");
        assert!((3200..3600).contains(&zipfian[2]) && zipfian[..2] == [0, 0], "{zipfian:?}");
        assert!(zipfian[11] > 0);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "x", "-1", "9..3", "1..2..3", "zipfian", "1.5", "99999999999"] {
            let refused = text.parse::<Lengths>().unwrap_err().to_string();
            assert!(refused.contains("is no length"), "{refused}");
        }
    }
}
