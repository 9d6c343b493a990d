//! `keeper status`: one line a member, from its client port; no token needed.

use super::Failure;
use super::output::{Format, print, print_json};
use super::tls::TlsFlags;
use clap::Args;
use keeper_client::{ClientError, TlsConnector, four_letter, four_letter_with};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Args)]
pub struct StatusCommand {
    /// Members' client addresses, with commas between.
    #[arg(long, env = "KEEPER_HOSTS", default_value = "127.0.0.1:2181", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Where writes spend their time, stage by stage, in microseconds.
    #[arg(long)]
    stages: bool,
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    tls: TlsFlags,
}

type Numbers = BTreeMap<String, String>;

const COLUMNS: [(&str, &str); 7] = [
    ("MODE", "zk_server_state"),
    ("TERM", "zk_term"),
    ("APPLIED", "zk_applied_log_index"),
    ("ZXID", "zk_zxid"),
    ("ZNODES", "zk_znode_count"),
    ("CONNECTIONS", "zk_num_alive_connections"),
    ("AVG MS", "zk_avg_latency"),
];

impl StatusCommand {
    /// Fails when no member can be reached, or none leads.
    pub async fn run(self) -> Result<(), Failure> {
        let mut members = Vec::new();
        let connector = self.tls.open()?.map(TlsConnector);
        let ask = async |host: &str, word: &str| match &connector {
            None => four_letter(host, word).await,
            Some(connector) => four_letter_with(connector, host, word).await,
        };
        if self.stages {
            return self.show_stages(ask).await;
        }
        for host in &self.hosts {
            let answer = ask(host, "mntr").await.map(|text| parse(&text));
            members.push((host.clone(), answer.map_err(|error| error.to_string())));
        }
        let leads = |numbers: &Numbers| {
            matches!(numbers.get("zk_server_state").map(String::as_str), Some("leader" | "standalone"))
        };
        let led = members.iter().any(|(_, answer)| answer.as_ref().is_ok_and(leads));
        if self.output == Format::Json {
            print_json(&to_json(&members))?;
        } else {
            print(&table(&members))?;
        }
        if led {
            return Ok(());
        }
        let error = anyhow::anyhow!("none of {} says that it leads", self.hosts.join(", "));
        Err(Failure { error, code: 5 })
    }
}

impl StatusCommand {
    /// The word `stgs` of each member.
    async fn show_stages(
        &self,
        ask: impl AsyncFn(&str, &str) -> Result<String, ClientError>,
    ) -> Result<(), Failure> {
        let mut members = Vec::new();
        for host in &self.hosts {
            members.push((host, ask(host, "stgs").await?));
        }
        if self.output == Format::Json {
            let rows = members.iter().map(|(host, text)| json!({ "host": host, "stages": stages(text) }));
            print_json(&rows.collect())?;
            return Ok(());
        }
        for (host, text) in members {
            print(&format!("{host}\n"))?;
            for line in text.lines() {
                let mut cells = line.split('\t');
                let name = cells.next().unwrap_or_default();
                print(&format!(
                    "  {name:<11}{}\n",
                    cells.map(|cell| format!("{cell:>10}")).collect::<String>()
                ))?;
            }
        }
        Ok(())
    }
}

/// Rows under the names of the first line.
fn stages(text: &str) -> Vec<Value> {
    let mut lines = text.lines().map(|line| line.split('\t'));
    let names: Vec<&str> = lines.next().into_iter().flatten().collect();
    let value = |cell: &str| cell.parse::<u64>().map_or_else(|_| json!(cell), Value::from);
    lines
        .map(|cells| names.iter().zip(cells).map(|(name, cell)| ((*name).to_owned(), value(cell))).collect())
        .collect()
}

/// A member without a leader answers one line instead of numbers.
fn parse(text: &str) -> Numbers {
    if text.starts_with("This ZooKeeper instance is not currently serving requests") {
        return Numbers::from([("zk_server_state".into(), "not serving".into())]);
    }
    text.lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn to_json(members: &[(String, Result<Numbers, String>)]) -> Value {
    let rows = members.iter().map(|(host, answer)| match answer {
        Ok(numbers) => {
            let mut row = Map::new();
            row.insert("host".into(), json!(host));
            row.extend(numbers.iter().map(|(name, value)| {
                let number = value.parse::<i64>().map(Value::from).ok();
                (name.trim_start_matches("zk_").to_owned(), number.unwrap_or_else(|| json!(value)))
            }));
            Value::Object(row)
        }
        Err(error) => json!({ "host": host, "error": error }),
    });
    Value::Array(rows.collect())
}

fn table(members: &[(String, Result<Numbers, String>)]) -> String {
    let mut rows = vec![
        std::iter::once("HOST".to_owned())
            .chain(COLUMNS.iter().map(|(title, _)| (*title).to_owned()))
            .collect(),
    ];
    for (host, answer) in members {
        let cells: Vec<String> = match answer {
            Ok(numbers) => std::iter::once(host.clone())
                .chain(
                    COLUMNS.iter().map(|(_, name)| numbers.get(*name).cloned().unwrap_or_else(|| "-".into())),
                )
                .collect(),
            Err(error) => vec![host.clone(), format!("unreachable: {error}")],
        };
        rows.push(cells);
    }
    let widths: Vec<usize> = (0..=COLUMNS.len())
        .map(|column| {
            rows.iter().filter(|row| row.len() > 2).filter_map(|row| row.get(column)).map(String::len).max()
        })
        .map(Option::unwrap_or_default)
        .collect();
    rows.iter()
        .map(|row| {
            let line: Vec<String> = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:<width$}", width = *width))
                .collect();
            format!("{}\n", line.join("  ").trim_end())
        })
        .collect()
}
