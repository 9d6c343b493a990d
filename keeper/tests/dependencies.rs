//! ARCHITECTURE.md, "Who may depend on whom", as a test: reads `cargo metadata` and fails on a wrong arrow.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Normal dependencies of every workspace crate.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("dependencies").iter();
            let normal = dependencies.filter(|dependency| dependency["kind"].is_null());
            let names =
                normal.map(|dependency| dependency["name"].as_str().expect("name").to_owned()).collect();
            (package["name"].as_str().expect("name").to_owned(), names)
        })
        .collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn arrows_between_our_crates_are_those_of_the_map() {
    let allowed: BTreeMap<&str, BTreeSet<String>> = [
        ("keeper-types", set(&[])),
        ("keeper-rt", set(&[])),
        ("keeper-admin-api", set(&[])),
        ("keeper-tls", set(&["keeper-rt"])),
        ("keeper-history", set(&[])),
        ("castellan-api", set(&[])),
        ("keeper-wire", set(&["keeper-types"])),
        ("keeper-tree", set(&["keeper-types"])),
        ("keeper-log", set(&["keeper-rt"])),
        ("keeper-consensus", set(&["keeper-types", "keeper-rt", "keeper-log", "keeper-tls"])),
        (
            "keeper-server",
            set(&[
                "keeper-types",
                "keeper-rt",
                "keeper-wire",
                "keeper-tree",
                "keeper-log",
                "keeper-consensus",
                "keeper-tls",
                "keeper-admin-api",
            ]),
        ),
        (
            "keeper-client",
            set(&["keeper-types", "keeper-rt", "keeper-wire", "keeper-tls", "keeper-admin-api"]),
        ),
        ("keeper-bench", set(&["keeper-types", "keeper-rt", "keeper-client"])),
        (
            "keeper",
            set(&[
                "keeper-types",
                "keeper-rt",
                "keeper-server",
                "keeper-client",
                "keeper-bench",
                "keeper-consensus",
                "keeper-log",
                "keeper-tree",
                "keeper-tls",
            ]),
        ),
        ("keeper-operator", set(&["castellan-api", "keeper-client"])),
    ]
    .into();
    let arrows = arrows();
    let ours: BTreeSet<String> = arrows.keys().cloned().collect();
    for (name, allowed) in &allowed {
        let actual: BTreeSet<String> = arrows[*name].intersection(&ours).cloned().collect();
        let wrong: Vec<_> = actual.difference(allowed).collect();
        assert!(wrong.is_empty(), "{name} may not depend on {wrong:?}; see ARCHITECTURE.md");
    }
    // Nothing but tests and tools depends on the server, the simulator or the binaries.
    for (name, dependencies) in &arrows {
        let top = ["keeper-server", "keeper-sim", "keeper", "keeper-operator"];
        let tools = ["keeper", "keeper-sim", "xtask", "castellan-e2e", "castellan-load"];
        let wrong = top.iter().any(|top| dependencies.contains(*top)) && !tools.contains(&name.as_str());
        assert!(!wrong, "{name} depends on something at the top");
    }
}

#[test]
fn the_pure_crates_name_no_runtime_files_sockets_clocks_or_randomness() {
    let arrows = arrows();
    for name in ["keeper-types", "keeper-wire", "keeper-tree"] {
        for banned in ["tokio", "rand", "getrandom", "rustix", "socket2", "keeper-rt", "keeper-log"] {
            assert!(!arrows[name].contains(banned), "{name} depends on {banned}");
        }
    }
    for (name, folder) in [("types", "types"), ("wire", "wire"), ("tree", "tree")] {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join("src");
        for file in rust_files(&root) {
            let text = std::fs::read_to_string(&file).expect("readable");
            for banned in [
                "std::fs",
                "TcpStream",
                "TcpListener",
                "UdpSocket",
                "ToSocketAddrs",
                "std::time",
                "std::thread",
                "std::env",
                "tokio",
                "rand::",
            ] {
                let named =
                    text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains(banned));
                assert!(!named, "{name}: {} names {banned}", file.display());
            }
        }
    }
}

fn rust_files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("folder") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

#[test]
fn outside_crates_with_one_owner_have_no_other() {
    let owners: [(&str, &[&str]); 6] = [
        ("openraft", &["keeper-consensus"]),
        ("object_store", &["keeper-backup"]),
        // kube is told its provider of cryptography by the operator.
        ("rustls", &["keeper-tls", "keeper-operator", "castellan-e2e", "xtask"]),
        ("tokio-rustls", &["keeper-tls"]),
        ("aws-lc-rs", &["keeper-tls"]),
        // The scenarios and the tasks drive the same clusters as the operator.
        ("kube", &["keeper-operator", "castellan-api", "castellan-e2e", "xtask"]),
    ];
    for (name, dependencies) in arrows() {
        for (outside, allowed) in owners {
            let wrong = dependencies.contains(outside) && !allowed.contains(&name.as_str());
            assert!(!wrong, "{name} names {outside}, which only {allowed:?} may");
        }
    }
}
