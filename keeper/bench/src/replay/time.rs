//! Times as ClickHouse writes them into a CSV.

/// Microseconds since 1970 of `2026-05-01 12:34:56.789012` (any number of decimals, or none) or of a number of seconds.
/// Only differences are used, so the time zone does not matter.
pub fn microseconds(text: &str) -> Option<i64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let seconds = match whole.split_once([' ', 'T']) {
        None => whole.parse().ok()?,
        Some((date, time)) => {
            let [year, month, day] = numbers(date, '-')?;
            let [hour, minute, second] = numbers(time.trim_end_matches('Z'), ':')?;
            let in_range = (1..=12).contains(&month) && (1..=31).contains(&day) && year < 10_000;
            if !in_range || hour > 23 || minute > 59 || second > 60 {
                return None;
            }
            days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second
        }
    };
    let decimals = decimals.trim_end_matches('Z');
    if !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let micros = decimals.bytes().chain(std::iter::repeat(b'0')).take(6);
    let micros = micros.fold(0, |sum, byte| sum * 10 + i64::from(byte - b'0'));
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

fn numbers(text: &str, between: char) -> Option<[i64; 3]> {
    let mut parts = text.split(between).map(|part| part.parse::<u32>().ok().map(i64::from));
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years are counted from March, so that the day that leap
/// years have more is their last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_numbers_are_read_with_their_decimals() {
        for (text, seconds, micros) in [
            ("1970-01-01 00:00:00", 0, 0),
            ("2000-02-29 12:00:00.5", 951_825_600, 500_000),
            ("2026-12-01 04:42:40.123456", 1_796_100_160, 123_456),
            ("2026-12-01T04:42:40Z", 1_796_100_160, 0),
            ("1796100160.25", 1_796_100_160, 250_000),
            ("1796100160", 1_796_100_160, 0),
        ] {
            assert_eq!(microseconds(text), Some(seconds * 1_000_000 + micros), "{text}");
        }
        for text in ["", "yesterday", "2026-13-01 00:00:00", "2026-01-01", "2026-01-01 25:00:00", "1.x"] {
            assert_eq!(microseconds(text), None, "{text}");
        }
    }
}
