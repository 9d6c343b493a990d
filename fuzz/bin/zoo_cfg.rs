//! The text of a zoo.cfg and of `-D` flags. Built only with the feature `zoo_cfg`, where the parser is there.
#![no_main]

#[path = "../../keeper/src/zoo_cfg/properties.rs"]
#[allow(dead_code)]
mod properties;

/// Stands for the parser's own.
#[derive(Debug)]
pub struct ZooCfgError;

impl ZooCfgError {
    pub fn new(_place: &str, _why: String) -> ZooCfgError {
        ZooCfgError
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut settings = properties::Settings::new();
    let _ = properties::read_file("zoo.cfg", text, &mut settings);
    let others = properties::read_flags("JVMFLAGS", text, &mut settings);
    assert!(settings.len() + others.len() <= 2 * text.len() + 2);
});
