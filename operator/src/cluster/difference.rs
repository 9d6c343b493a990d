//! Whether an object that is there is as wanted, so that a reconcile that changes nothing writes nothing.
//!
//! The API server adds defaults and rewrites quantities; only what was asked for is compared. A field that is no
//! longer asked for is noticed by the checksum that every object bears.

use serde_json::Value;

/// True when everything in `wanted` is in `present`.
pub fn is_as_wanted(wanted: &Value, present: &Value) -> bool {
    match (wanted, present) {
        (Value::Object(wanted), Value::Object(present)) => {
            wanted.iter().all(|(key, wanted)| match present.get(key) {
                Some(present) => is_as_wanted(wanted, present),
                None => is_empty(wanted),
            })
        }
        (Value::Array(wanted), Value::Array(present)) => {
            wanted.len() == present.len()
                && wanted.iter().zip(present).all(|(wanted, present)| is_as_wanted(wanted, present))
        }
        (Value::String(wanted), Value::String(present)) if wanted != present => {
            matches!((quantity(wanted), quantity(present)), (Some(wanted), Some(present)) if wanted == present)
        }
        (wanted, present) => wanted == present,
    }
}

/// The API server drops what is empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// A quantity such as `1500m` or `2Gi` in thousandths, so that `1` and `1000m` are the same.
fn quantity(text: &str) -> Option<i128> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let thousandths: i128 = match suffix {
        "m" => 1,
        "" => 1_000,
        "k" => 1_000_000,
        "M" => 1_000_000_000,
        "G" => 1_000_000_000_000,
        "T" => 1_000_000_000_000_000,
        "P" => 1_000_000_000_000_000_000,
        "Ki" => 1_000 << 10,
        "Mi" => 1_000 << 20,
        "Gi" => 1_000 << 30,
        "Ti" => 1_000 << 40,
        "Pi" => 1_000 << 50,
        _ => return None,
    };
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    digits.checked_mul(thousandths).map(|product| product / scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_server_added_does_not_count() {
        let wanted = json!({"spec": {"ports": [{"port": 1}], "empty": {}, "size": "0.5"}});
        let present = json!({
            "metadata": {"resourceVersion": "7"},
            "spec": {"ports": [{"port": 1, "protocol": "TCP"}], "size": "500m", "type": "ClusterIP"}
        });
        assert!(is_as_wanted(&wanted, &present));
    }

    #[test]
    fn what_somebody_changed_or_removed_counts() {
        let wanted = json!({"spec": {"ports": [{"port": 1}], "size": "1Gi"}});
        for present in [
            json!({"spec": {"ports": [{"port": 2}], "size": "1Gi"}}),
            json!({"spec": {"ports": [{"port": 1}, {"port": 2}], "size": "1Gi"}}),
            json!({"spec": {"ports": [{"port": 1}]}}),
            json!({"spec": {"ports": [{"port": 1}], "size": "2Gi"}}),
            json!({}),
        ] {
            assert!(!is_as_wanted(&wanted, &present), "{present}");
        }
    }

    #[test]
    fn quantities_are_equal_by_value() {
        assert_eq!(quantity("1Gi"), quantity("1024Mi"));
        assert_eq!(quantity("1"), quantity("1000m"));
        assert_eq!(quantity("1.5G"), quantity("1500M"));
        assert_ne!(quantity("1G"), quantity("1Gi"));
        assert_eq!(quantity("main-0"), None);
    }
}
