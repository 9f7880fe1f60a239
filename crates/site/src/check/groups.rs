//! Groups and their members.

use std::collections::BTreeMap;

use super::Checker;
use crate::Group;
use crate::mistake::MistakeKind;
use crate::section::{At, Section};

const GROUP: &[&str] = &["number", "members"];
const MEMBERS: &str = "a list of zones and groups, such as [\"gym\", \"hall\"]";

/// Groups in the message about a cycle.
const MAX_SHOWN: usize = 6;

type Members<'a> = BTreeMap<&'a str, Vec<At<&'a str>>>;

impl<'a> Checker<'a> {
    pub(super) fn groups(&mut self, file: &Section<'a>) -> BTreeMap<String, Group> {
        let (mut groups, mut all) = (BTreeMap::new(), Members::new());
        for (name, group) in file.tables("group", GROUP, &mut self.mistakes) {
            if self.names.zones.contains(name) {
                self.mistakes.add(group.at, MistakeKind::ZoneAndGroup(name.to_owned()));
            }
            let number = self.number(&group);
            group.require("members", "[\"ZONE\"]", &mut self.mistakes);
            let members = self.zones_and_groups(&group, "members", MEMBERS);
            let names = members.iter().map(|member| member.value.to_owned()).collect();
            groups.insert(name.to_owned(), Group { number, members: names });
            all.insert(name, members);
        }
        self.cycles(&all);
        groups
    }

    /// A list of zones and groups.
    pub(super) fn zones_and_groups(
        &mut self,
        section: &Section<'a>,
        key: &'static str,
        write: &'static str,
    ) -> Vec<At<&'a str>> {
        let listed = section.list(key, write, &mut self.mistakes).unwrap_or_default();
        for name in &listed {
            let names = &self.names;
            let known = names.zones.contains(name.value) || names.groups.contains(name.value);
            self.known("zone or group", *name, known, |names| {
                names.zones.union(&names.groups).copied().collect()
            });
        }
        listed
    }

    /// Reports each member that closes a cycle. Without recursion, as a file can nest thousands of
    /// groups.
    fn cycles(&mut self, groups: &Members<'a>) {
        #[derive(PartialEq)]
        enum State {
            Open,
            Done,
        }
        let mut states = BTreeMap::new();
        for start in groups.keys().copied() {
            // Groups on the path, and the next member of each.
            let mut path: Vec<(&str, usize)> = Vec::new();
            if !states.contains_key(start) {
                states.insert(start, State::Open);
                path.push((start, 0));
            }
            while let Some((group, next)) = path.last_mut() {
                let group = *group;
                let Some(member) = groups[group].get(*next).copied() else {
                    states.insert(group, State::Done);
                    path.pop();
                    continue;
                };
                *next += 1;
                match states.get(member.value) {
                    Some(State::Done) => {}
                    Some(State::Open) => {
                        let begin = path.iter().position(|(name, _)| *name == member.value);
                        let cycle = &path[begin.unwrap_or_default()..];
                        let path = shown(cycle.iter().map(|(name, _)| *name), member.value);
                        let (group, name) = (group.to_owned(), member.value.to_owned());
                        let kind = MistakeKind::GroupCycle { path, group, member: name };
                        self.mistakes.add(member.at, kind);
                    }
                    None if groups.contains_key(member.value) => {
                        states.insert(member.value, State::Open);
                        path.push((member.value, 0));
                    }
                    None => {}
                }
            }
        }
    }
}

fn shown<'a>(cycle: impl ExactSizeIterator<Item = &'a str> + Clone, first: &'a str) -> String {
    let left_out = cycle.len().saturating_sub(MAX_SHOWN);
    let names = cycle.take(MAX_SHOWN).map(crate::mistake::shown);
    let left_out = (left_out > 0).then(|| format!("{left_out} more"));
    let names: Vec<_> = names.chain(left_out).chain([crate::mistake::shown(first)]).collect();
    names.join(" → ")
}
