//! What clients did and were told, and whether one order of the writes explains it all.
//!
//! A write carries data that no other write has, and every answer carries zxids and versions, so the order is known
//! and nothing needs to be searched:
//! * data, version and zxid of a node's state belong together, one to one, and later versions have later zxids;
//! * a write that was answered before another was asked comes before it (writes are linearizable);
//! * what was refused or never sent is never seen, and nothing is seen that was not asked for;
//! * a session never goes back in time, and a read after `sync` sees everything answered before the `sync`.

use std::collections::BTreeMap;

/// Names one attempt to write; its data.
pub(super) type WriteId = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Asked for; the answer has not come, or never will.
    Open,
    Refused,
    Done {
        version: i32,
        zxid: i64,
    },
}

#[derive(Clone, Debug)]
struct Write {
    key: String,
    asked_ns: u64,
    fate: Fate,
}

/// A state of a node: which write made it, and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyState {
    version: i32,
    write: Option<WriteId>,
}

/// One node's data as a reply showed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    /// The write whose data it is; `None` for the data it was created with.
    pub(super) write: Option<WriteId>,
    pub(super) version: i32,
    /// The zxid of the last change.
    pub(super) mzxid: i64,
}

#[derive(Default)]
pub(super) struct History {
    next_write: WriteId,
    writes: BTreeMap<WriteId, Write>,
    /// key → mzxid → state.
    states: BTreeMap<String, BTreeMap<i64, KeyState>>,
    /// When a write was answered → the greatest zxid answered until then.
    answered: BTreeMap<u64, i64>,
    /// The same for each key.
    answered_by_key: BTreeMap<String, BTreeMap<u64, i64>>,
}

fn greatest_before(answered: &BTreeMap<u64, i64>, ns: u64) -> i64 {
    answered.range(..ns).next_back().map_or(0, |(_, zxid)| *zxid)
}

fn note_answer(answered: &mut BTreeMap<u64, i64>, ns: u64, zxid: i64) {
    let greatest = greatest_before(answered, ns + 1).max(zxid);
    answered.insert(ns, greatest);
}

impl History {
    /// Someone is about to ask for a write of `key`.
    pub(super) fn ask(&mut self, key: &str, now_ns: u64) -> WriteId {
        self.next_write += 1;
        let write = Write { key: key.to_string(), asked_ns: now_ns, fate: Fate::Open };
        self.writes.insert(self.next_write, write);
        self.next_write
    }

    pub(super) fn refused(&mut self, id: WriteId) -> Result<(), String> {
        let Some(write) = self.writes.get_mut(&id) else { return Ok(()) };
        write.fate = Fate::Refused;
        let key = write.key.clone();
        match self.states.get(&key).and_then(|states| states.iter().find(|(_, s)| s.write == Some(id))) {
            Some((zxid, _)) => Err(format!("write {id} of {key} was refused, but was seen at zxid {zxid}")),
            None => Ok(()),
        }
    }

    pub(super) fn done(&mut self, id: WriteId, version: i32, zxid: i64, now_ns: u64) -> Result<(), String> {
        let Some(write) = self.writes.get_mut(&id) else {
            return Err(format!("write {id} was answered but never asked"));
        };
        write.fate = Fate::Done { version, zxid };
        let (key, asked_ns) = (write.key.clone(), write.asked_ns);
        let before = greatest_before(&self.answered, asked_ns);
        if zxid <= before {
            return Err(format!(
                "write {id} of {key} has zxid {zxid}, but {before} was answered before it was asked"
            ));
        }
        note_answer(&mut self.answered, now_ns, zxid);
        note_answer(self.answered_by_key.entry(key.clone()).or_default(), now_ns, zxid);
        self.observe(&key, Observed { write: Some(id), version, mzxid: zxid })
    }

    /// A reply showed `key` like this.
    pub(super) fn observe(&mut self, key: &str, seen: Observed) -> Result<(), String> {
        if let Some(id) = seen.write {
            match self.writes.get(&id) {
                None => return Err(format!("{key} holds write {id}, which nobody asked for")),
                Some(write) if write.key != key => {
                    return Err(format!("{key} holds write {id}, asked for {}", write.key));
                }
                Some(Write { fate: Fate::Refused, .. }) => {
                    return Err(format!("{key} holds write {id}, which was refused"));
                }
                Some(Write { fate: Fate::Done { version, zxid }, .. })
                    if (*version, *zxid) != (seen.version, seen.mzxid) =>
                {
                    return Err(format!(
                        "{key} holds write {id} as {seen:?}, it was answered with version {version}, zxid {zxid}"
                    ));
                }
                Some(_) => {}
            }
        }
        self.place(key, seen)
    }

    /// Puts a state into the order of its key's states.
    fn place(&mut self, key: &str, seen: Observed) -> Result<(), String> {
        let states = self.states.entry(key.to_string()).or_default();
        let state = KeyState { version: seen.version, write: seen.write };
        if let Some(known) = states.get(&seen.mzxid) {
            if *known != state {
                return Err(format!("{key} at zxid {}: seen as {state:?} and as {known:?}", seen.mzxid));
            }
            return Ok(());
        }
        if let Some((zxid, before)) = states.range(..seen.mzxid).next_back()
            && before.version >= seen.version
        {
            return Err(format!("{key}: {seen:?} does not follow {before:?} at zxid {zxid}"));
        }
        if let Some((zxid, after)) = states.range(seen.mzxid + 1..).next()
            && after.version <= seen.version
        {
            return Err(format!("{key}: {seen:?} is not followed by {after:?} at zxid {zxid}"));
        }
        if let Some((zxid, twice)) = states.iter().find(|(_, s)| s.write.is_some() && s.write == seen.write) {
            return Err(format!("{key}: {seen:?} was also applied at zxid {zxid} as {twice:?}"));
        }
        states.insert(seen.mzxid, state);
        Ok(())
    }

    /// A read that followed a `sync` asked at `sync_ns` showed `key` like this.
    pub(super) fn observe_synced(&mut self, key: &str, seen: Observed, sync_ns: u64) -> Result<(), String> {
        let before = self.answered_by_key.get(key).map_or(0, |answered| greatest_before(answered, sync_ns));
        if seen.mzxid < before {
            return Err(format!("{key}: {seen:?} after a sync, but {before} was answered before the sync"));
        }
        self.observe(key, seen)
    }

    /// At the end a node's tree holds `key` like this: everything answered must be in it.
    pub(super) fn final_state(&mut self, key: &str, seen: Observed) -> Result<(), String> {
        self.observe_synced(key, seen, u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(write: WriteId, version: i32, mzxid: i64) -> Observed {
        Observed { write: Some(write), version, mzxid }
    }

    #[test]
    fn an_ordinary_history_is_explained() {
        let mut history = History::default();
        history.observe("/a", Observed { write: None, version: 0, mzxid: 1 }).unwrap();
        let (first, second, lost) = (history.ask("/a", 10), history.ask("/a", 11), history.ask("/a", 12));
        history.done(second, 1, 5, 20).unwrap();
        history.done(first, 3, 7, 21).unwrap();
        history.observe("/a", seen(lost, 2, 6)).unwrap();
        history.observe_synced("/a", seen(first, 3, 7), 30).unwrap();
        history.final_state("/a", seen(first, 3, 7)).unwrap();
    }

    #[test]
    fn a_second_application_is_found() {
        let mut history = History::default();
        let id = history.ask("/a", 1);
        history.observe("/a", seen(id, 1, 5)).unwrap();
        assert!(history.observe("/a", seen(id, 2, 6)).unwrap_err().contains("also applied"));
        let id = history.ask("/a", 1);
        history.done(id, 3, 7, 10).unwrap();
        assert!(history.observe("/a", seen(id, 4, 8)).unwrap_err().contains("it was answered with"));
    }

    #[test]
    fn a_lost_answered_write_is_found() {
        let mut history = History::default();
        let (old, new) = (history.ask("/a", 1), history.ask("/a", 2));
        history.done(old, 1, 5, 10).unwrap();
        history.done(new, 2, 6, 11).unwrap();
        assert!(history.final_state("/a", seen(old, 1, 5)).unwrap_err().contains("answered before the sync"));
    }

    #[test]
    fn a_refused_write_that_took_effect_is_found() {
        let mut history = History::default();
        let id = history.ask("/a", 1);
        history.refused(id).unwrap();
        assert!(history.observe("/a", seen(id, 1, 5)).unwrap_err().contains("refused"));
        let id = history.ask("/a", 1);
        history.observe("/a", seen(id, 2, 6)).unwrap();
        assert!(history.refused(id).unwrap_err().contains("was refused, but was seen"));
    }

    #[test]
    fn writes_out_of_real_time_order_are_found() {
        let mut history = History::default();
        let first = history.ask("/a", 1);
        history.done(first, 2, 9, 10).unwrap();
        let second = history.ask("/b", 11);
        assert!(history.done(second, 1, 8, 20).unwrap_err().contains("before it was asked"));
    }

    #[test]
    fn a_stale_read_after_a_sync_and_versions_out_of_order_are_found() {
        let mut history = History::default();
        let (old, new) = (history.ask("/a", 1), history.ask("/a", 2));
        history.done(old, 1, 5, 10).unwrap();
        history.done(new, 2, 6, 11).unwrap();
        history.observe("/a", seen(old, 1, 5)).unwrap();
        assert!(history.observe_synced("/a", seen(old, 1, 5), 12).is_err());
        assert!(history.observe("/a", Observed { write: None, version: 3, mzxid: 4 }).is_err());
    }
}
