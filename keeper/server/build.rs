//! The date of the build, as ZooKeeper's clients read it: that of the commit, so that the same commit gives the same
//! bytes. `SOURCE_DATE_EPOCH` (reproducible-builds.org) wins; without either it is the epoch itself, which says "unknown".

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    // Not `.git/HEAD`: a commit that changes nothing in here shall not build the server again.
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build.rs");
    let seconds = std::env::var("SOURCE_DATE_EPOCH").ok().or_else(commit_date);
    let seconds: u64 = seconds.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    println!("cargo::rustc-env=KEEPER_BUILT_ON={}", date(seconds));
}

fn commit_date() -> Option<String> {
    let output = Command::new("git").args(["log", "-1", "--format=%ct"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `MM/DD/YYYY HH:MM UTC`, by Howard Hinnant's days-to-civil algorithm.
fn date(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (seconds / 3_600 % 24, seconds / 60 % 60);
    format!("{month:02}/{day:02}/{year} {hour:02}:{minute:02} UTC")
}
