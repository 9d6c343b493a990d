#![no_main]

#[path = "../../keeper/server/src/sasl/mod.rs"]
#[allow(dead_code, unused_imports)]
mod sasl;
#[path = "../targets/sasl.rs"]
#[allow(dead_code)]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::token(data));
