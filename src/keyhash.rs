//! The hash of a key, as stored on disk: fixed for ever.
//!
//! Hash id 1 is rapidhash version 3 with all of its secrets derived from the 64-bit seed in the
//! file's header. Hash id 2 is SipHash-2-4 under a key derived from that seed; a builder falls
//! back on it when somebody has managed to make keys that collide under the former.
//!
//! The seed is in the file, so neither is a secret: what bounds the cost of a lookup is that the
//! builder refuses a seed under which the longest chain is over its limit.

use rapidhash::v3::{
    RapidSecrets, rapidhash_v3_inline, rapidhash_v3_nano_inline, rapidhash_v3_seeded,
};
use siphasher::sip::SipHasher24;

/// Identifier of rapidhash v3 in a header.
pub(crate) const RAPID: u32 = 1;
/// Identifier of SipHash-2-4 in a header.
pub(crate) const SIP: u32 = 2;

/// Keys shorter than this are hashed without a call.
const SHORT_BELOW: usize = 17;
/// Rapidhash has a shorter routine with the same result for keys up to this length.
const NANO_BYTES: usize = 48;

/// A hash function with its seed expanded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHash {
    /// Zero for SipHash: so one comparison tells both that the key is short and the function.
    short_below: usize,
    rapid: RapidSecrets,
    sip: Option<SipHasher24>,
}

impl KeyHash {
    /// The function with this identifier, if there is one.
    pub(crate) fn new(id: u32, seed: u64) -> Option<KeyHash> {
        let rapid = RapidSecrets::seed(seed);
        match id {
            RAPID => Some(KeyHash { short_below: SHORT_BELOW, rapid, sip: None }),
            SIP => {
                let sip = Some(SipHasher24::new_with_keys(seed, !seed));
                Some(KeyHash { short_below: 0, rapid, sip })
            }
            _ => None,
        }
    }

    /// Whether it is SipHash.
    pub(crate) fn is_sip(&self) -> bool {
        self.sip.is_some()
    }

    /// The hash of `key`.
    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        if key.len() < self.short_below {
            // With the length known to be small, two dozen instructions of this are left.
            rapidhash_v3_inline::<true, true, false>(key, &self.rapid)
        } else {
            self.hash_long(key)
        }
    }

    /// Whether [`KeyHash::hash_words`] hashes short keys.
    pub(crate) fn takes_words(&self) -> bool {
        !self.is_sip()
    }

    /// The hash of a key of 8 to 16 bytes, of which these are the first eight and the last eight:
    /// what is left of the function when its length is known to be so, a dozen instructions.
    /// [`KeyHash::takes_words`] must have said that it may be used.
    #[inline(always)]
    pub(crate) fn hash_words(&self, first: u64, last: u64, len: usize) -> u64 {
        let (secret, len) = (self.rapid.secrets[1], len as u64);
        let (low, high) = multiply(first ^ secret, last ^ self.rapid.seed ^ len);
        let (low, high) = multiply(low ^ 0xaaaa_aaaa_aaaa_aaaa, high ^ secret ^ len);
        low ^ high
    }

    /// The same for the less common cases, kept out of the way of the others.
    #[inline(never)]
    fn hash_long(&self, key: &[u8]) -> u64 {
        match &self.sip {
            Some(sip) => sip.hash(key),
            None if key.len() <= NANO_BYTES => {
                rapidhash_v3_nano_inline::<true, false>(key, &self.rapid)
            }
            None => rapidhash_v3_seeded(key, &self.rapid),
        }
    }
}

/// The lower and the upper half of a product.
#[inline(always)]
fn multiply(a: u64, b: u64) -> (u64, u64) {
    let product = u128::from(a) * u128::from(b);
    (product as u64, (product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_on_disk_never_change() {
        let rapid = KeyHash::new(RAPID, 0).unwrap();
        let long = [b'x'; 100];
        let seen = [rapid.hash(b""), rapid.hash(b"credenza"), rapid.hash(&long)];
        assert_eq!(seen, GOLDEN_RAPID);
        assert_eq!(KeyHash::new(SIP, 7).unwrap().hash(b"credenza"), GOLDEN_SIP);
        assert!(KeyHash::new(3, 0).is_none());
    }

    #[test]
    fn the_short_routine_agrees_with_the_general_one() {
        let secrets = RapidSecrets::seed(9);
        let data: Vec<u8> = (0..=NANO_BYTES as u8).collect();
        for len in 0..=NANO_BYTES {
            let key = &data[..len];
            assert_eq!(
                KeyHash::new(RAPID, 9).unwrap().hash(key),
                rapidhash_v3_seeded(key, &secrets)
            );
        }
    }

    const GOLDEN_RAPID: [u64; 3] =
        [9_803_252_772_108_305_337, 12_856_124_208_347_453_711, 15_705_625_561_981_316_591];
    const GOLDEN_SIP: u64 = 9702004484903119422;
}
