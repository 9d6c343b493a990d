//! Random numbers, strings and names, the same for the same seed on every machine.

use crate::config::{Number, Text};

/// splitmix64: small, fast, and good enough to choose paths and fill values.
#[derive(Clone, Debug)]
pub struct Random(u64);

const ALPHABET: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
/// Letters and digits alone, for names.
const NAME_BASE: u64 = 62;

impl Random {
    /// `stream` tells generators of one seed apart.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut random = Random(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
        random.next_u64();
        random
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to `end - 1`; 0 when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// At least 0, below 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn number(&mut self, number: Number) -> u64 {
        // A range of all numbers does not occur: every number of a configuration has a bound.
        number.min + self.below(number.max - number.min + 1)
    }

    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    pub fn text(&mut self, text: &Text) -> Vec<u8> {
        match text {
            Text::Fixed(text) => text.as_bytes().to_vec(),
            Text::Random(size) => {
                let size = self.number(*size) as usize;
                self.bytes(size)
            }
        }
    }

    /// A text of the set-up, where names are strings.
    pub fn name(&mut self, text: &Text) -> String {
        match text {
            Text::Fixed(text) => text.clone(),
            Text::Random(size) => {
                let size = self.number(*size);
                (0..size).map(|_| digit(self.below(NAME_BASE))).collect()
            }
        }
    }

    /// Ten letters of each random number.
    fn bytes(&mut self, size: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size + 10);
        while bytes.len() < size {
            let mut bits = self.next_u64();
            for _ in 0..10 {
                bytes.push(ALPHABET[(bits & 63) as usize]);
                bits >>= 6;
            }
        }
        bytes.truncate(size);
        bytes
    }
}

fn digit(value: u64) -> char {
    char::from(ALPHABET[(value % NAME_BASE) as usize])
}

/// Digits of a name that make it unique; those behind them are random.
const UNIQUE_DIGITS_MAX: u64 = 10;
/// Odd and no multiple of 31, so that multiplying by it is a permutation of the names of each length.
const SCRAMBLE: u128 = 0x9e37_79b9_7f4a_7c15;

/// The `number`th name of `length` letters: it looks random, and two numbers have the same one only when there are
/// more numbers than names.
pub fn unique_name(number: u64, length: u64, random: &mut Random) -> String {
    let digits = length.min(UNIQUE_DIGITS_MAX);
    let names = u128::from(NAME_BASE.pow(digits as u32));
    let mut value = (u128::from(number) * SCRAMBLE % names) as u64;
    let mut name = String::with_capacity(length as usize);
    for _ in 0..digits {
        name.push(digit(value % NAME_BASE));
        value /= NAME_BASE;
    }
    (digits..length).for_each(|_| name.push(digit(random.below(NAME_BASE))));
    name
}
