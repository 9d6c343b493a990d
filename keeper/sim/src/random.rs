//! The seed's stream of random numbers: one for the whole simulation, so that a seed decides everything.
//!
//! xoroshiro128+: small, quick and written here, so that no upgrade of a crate changes what a seed means.

/// Spreads the bits of `value` (the finalizer of splitmix64).
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// One number for a sequence of them; for traces and digests, not against an adversary.
pub fn hash_words(words: &[u64]) -> u64 {
    words.iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| mix(hash.rotate_left(5) ^ word))
}

pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hash = mix(bytes.len() as u64);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = mix(hash.rotate_left(5) ^ u64::from_le_bytes(word));
    }
    hash
}

#[derive(Clone, Debug)]
pub struct Stream([u64; 2]);

impl Stream {
    pub fn from_seed(seed: u64) -> Stream {
        // The second word is odd: the generator must not start from all zeros.
        Stream([mix(seed ^ 0x5851_f42d_4c95_7f2d), mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)) | 1])
    }

    pub fn next_u64(&mut self) -> u64 {
        let [first, second] = self.0;
        let mixed = first ^ second;
        self.0 = [first.rotate_left(24) ^ mixed ^ (mixed << 16), mixed.rotate_left(37)];
        // The lowest bit of the sum is the weak one: callers take remainders.
        first.wrapping_add(second).rotate_left(32)
    }

    /// Uniform in `0..bound`; 0 where `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next_u64() % bound }
    }

    pub fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_seeds_give_unrelated_streams() {
        let firsts: std::collections::BTreeSet<u64> =
            (0..1000).map(|seed| Stream::from_seed(seed).next_u64() % 1_000_000_007).collect();
        assert!(firsts.len() > 990, "only {} distinct first numbers", firsts.len());
    }

    #[test]
    fn bounds_are_kept_and_small_bounds_are_evenly_hit() {
        let mut stream = Stream::from_seed(7);
        let mut hits = [0; 5];
        for _ in 0..10_000 {
            hits[usize::try_from(stream.below(5)).unwrap()] += 1;
        }
        assert!(hits.iter().all(|count| (1800..2200).contains(count)), "{hits:?}");
        assert_eq!(stream.below(0), 0);
    }
}
