#![no_main]

#[path = "../targets/wire.rs"]
#[allow(dead_code)]
mod wire;

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::dialect(data));
