//! Replays the seeds of one fuzz target as a test of the crate that takes this file in, without a fuzz engine.

use std::path::Path;

/// Gives every seed under `fuzz/corpus/<name>`, and every beginning of it, to the target.
pub fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for file in files {
        let path = file.expect("a file").path();
        // A panic names no input: this line does.
        println!("{}", path.display());
        let data = std::fs::read(&path).expect("readable");
        for length in 0..=data.len() {
            target(&data[..length]);
        }
        count += 1;
    }
    assert!(count >= 3, "{} holds {count} files", folder.display());
}
