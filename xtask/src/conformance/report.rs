//! What a suite says of its tests, read from its own form of output.

use anyhow::{Result, ensure};

/// Names of tests by outcome.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub passed: Vec<String>,
    pub failed: Vec<String>,
    pub skipped: Vec<String>,
}

impl Report {
    fn add(&mut self, outcome: &str, name: &str) {
        let list = match outcome {
            "passed" => &mut self.passed,
            "skipped" => &mut self.skipped,
            _ => &mut self.failed,
        };
        list.push(name.trim().to_owned());
    }

    /// With every name behind `prefix`, for suites of several parts.
    pub fn join(&mut self, prefix: &str, other: Report) {
        let named =
            |names: Vec<String>| names.into_iter().map(|name| format!("{prefix}{name}")).collect::<Vec<_>>();
        self.passed.extend(named(other.passed));
        self.failed.extend(named(other.failed));
        self.skipped.extend(named(other.skipped));
    }

    /// A suite that printed no test has not run.
    pub fn some(self, what: &str) -> Result<Report> {
        let count = self.passed.len() + self.failed.len() + self.skipped.len();
        ensure!(count > 0, "{what} shows no test at all");
        Ok(self)
    }
}

/// `passed NAME` lines, as our pytest plugin writes them.
pub fn lines(text: &str) -> Report {
    let mut report = Report::default();
    for (outcome, name) in text.lines().filter_map(|line| line.split_once(' ')) {
        report.add(outcome, name);
    }
    report
}

/// cargo's `test NAME ... ok`; between the name and its outcome a test's own output may stand.
pub fn cargo(text: &str) -> Report {
    let mut report = Report::default();
    let mut open: Option<&str> = None;
    for line in text.lines() {
        let (name, rest) = match line.strip_prefix("test ").and_then(|line| line.split_once(" ... ")) {
            Some((name, rest)) => (name, rest),
            // `test result: …` has no dots. A lone outcome ends the test that is open.
            None => match open {
                Some(name) => (name, line),
                None => continue,
            },
        };
        let rest = rest.trim_end();
        let outcome = [("ok", "passed"), ("FAILED", "failed"), ("ignored", "skipped")];
        let found = outcome.iter().find(|(word, _)| rest == *word || rest.ends_with(&format!(" {word}")));
        match found {
            Some((_, outcome)) => {
                report.add(outcome, name.trim_end_matches(" - should panic"));
                open = None;
            }
            None if rest.starts_with("ignored,") => {
                report.add("skipped", name);
                open = None;
            }
            None => open = Some(name),
        }
    }
    // A run that broke off in the middle of a test.
    if let Some(name) = open {
        report.add("failed", name);
    }
    report
}

/// `go test -json`: one object a line. Subtests count like tests, packages do not.
pub fn go(text: &str) -> Report {
    let mut report = Report::default();
    let mut running: Vec<String> = Vec::new();
    for line in text.lines() {
        let Ok(event) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let Some(test) = event["Test"].as_str() else { continue };
        let outcome = match event["Action"].as_str() {
            Some("pass") => "passed",
            Some("fail") => "failed",
            Some("skip") => "skipped",
            Some("run") => {
                running.push(test.to_owned());
                continue;
            }
            _ => continue,
        };
        running.retain(|name| name != test);
        report.add(outcome, test);
    }
    // A panic ends the whole program.
    for name in running {
        report.add("failed", &name);
    }
    report
}

/// TAP, versions 12 to 14: `ok 1 - NAME`, `not ok 2 - NAME`, `# SKIP`. Indented subtests do not count.
pub fn tap(text: &str) -> Report {
    let mut report = Report::default();
    let mut planned = None;
    for line in text.lines() {
        if let Some(count) = line.strip_prefix("1..") {
            planned = count.split_whitespace().next().and_then(|count| count.parse::<usize>().ok());
            continue;
        }
        let (outcome, rest) = match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
            (Some(rest), _) => ("passed", rest),
            (_, Some(rest)) => ("failed", rest),
            _ => continue,
        };
        let name = rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).trim_start();
        let name = name.strip_prefix("- ").unwrap_or(name);
        let directive =
            name.rsplit_once(" # ").filter(|(_, word)| word.to_ascii_lowercase().starts_with("skip"));
        match directive {
            Some((name, _)) => report.add("skipped", name),
            None => report.add(outcome, name),
        }
    }
    // What was planned and never came.
    let came = report.passed.len() + report.failed.len() + report.skipped.len();
    for number in came..planned.unwrap_or(came) {
        report.add("failed", &format!("planned test {}", number + 1));
    }
    report
}

/// JUnit's console with `--details=testfeed`: `JUnit Jupiter > CLASS > name() :: SUCCESSFUL`.
pub fn junit(text: &str) -> Report {
    let mut report = Report::default();
    for line in text.lines() {
        let Some((path, outcome)) = line.rsplit_once(" :: ") else { continue };
        let name = path.splitn(3, " > ").nth(2).unwrap_or(path);
        match outcome.trim() {
            "SUCCESSFUL" => report.add("passed", name),
            "FAILED" => report.add("failed", name),
            "ABORTED" | "SKIPPED" => report.add("skipped", name),
            _ => {}
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(report: &Report, passed: &[&str], failed: &[&str], skipped: &[&str]) {
        assert_eq!(report.passed, passed, "passed");
        assert_eq!(report.failed, failed, "failed");
        assert_eq!(report.skipped, skipped, "skipped");
    }

    #[test]
    fn our_plugins_lines() {
        check(&lines("passed a::b\nfailed c[x y]\nskipped d\n"), &["a::b"], &["c[x y]"], &["d"]);
    }

    #[test]
    fn cargos_lines_with_output_between() {
        let text = "running 4 tests\ntest a ... ok\ntest b ... starting\nmore\nFAILED\ntest c ... ignored\n\
                    test d - should panic ... ok\ntest result: FAILED. 2 passed; 1 failed\ntest e ... x\n";
        check(&cargo(text), &["a", "d"], &["b", "e"], &["c"]);
    }

    #[test]
    fn gos_events_and_a_panic() {
        let text = "{\"Action\":\"run\",\"Test\":\"A\"}\n{\"Action\":\"output\",\"Test\":\"A\",\"Output\":\"x\"}\n\
                    {\"Action\":\"pass\",\"Test\":\"A\"}\n{\"Action\":\"run\",\"Test\":\"B\"}\nnoise\n\
                    {\"Action\":\"skip\",\"Test\":\"C\"}\n{\"Action\":\"fail\",\"Package\":\"p\"}\n";
        check(&go(text), &["A"], &["B"], &["C"]);
    }

    #[test]
    fn taps_lines_and_what_never_came() {
        let text = "TAP version 13\n1..5\nok 1 - a › b\n    not ok 1 - inner\nnot ok 2 - c\n# text\nok 3 - d # SKIP why\n";
        check(&tap(text), &["a › b"], &["c", "planned test 4", "planned test 5"], &["d"]);
    }

    #[test]
    fn junits_feed() {
        let text = "JUnit Jupiter > CuratorRecipesTest > lock() :: SUCCESSFUL\nx\n\
                    JUnit Jupiter > CuratorRecipesTest > kill() > member killed :: FAILED\n";
        check(&junit(text), &["lock()"], &["kill() > member killed"], &[]);
    }

    #[test]
    fn a_silent_suite_has_not_run() {
        assert!(tap("").some("x").unwrap_err().to_string().contains("no test"));
    }
}
