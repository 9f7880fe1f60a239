//! Two worlds that share the paths between two hosts, as in a call. Sound queues with the other
//! direction's reports.

use std::rc::Rc;

use tautline_proto::time::Span;

use super::World;
use crate::clock::TrueTime;
use crate::scenario::Scenario;

pub struct Duplex {
    pub worlds: [World; 2],
}

impl Duplex {
    /// Uses the paths of the first scenario's first receiver.
    pub fn new(scenarios: [Scenario; 2]) -> Self {
        let mut worlds = scenarios.map(World::new);
        let [first, second] = &mut worlds;
        let (one, other) = (&mut first.listeners[0], &mut second.listeners[0]);
        other.there = Rc::clone(&one.back);
        other.back = Rc::clone(&one.there);
        for path in [&one.there, &one.back] {
            path.borrow_mut().waits = Some(Vec::new());
        }
        Self { worlds }
    }

    /// Time of entry and queueing delay of each datagram there.
    pub fn waits(&self) -> Vec<(TrueTime, Span)> {
        self.worlds[0].listeners[0].there.borrow().waits.clone().unwrap_or_default()
    }

    pub fn run(&mut self, span: Span) {
        let until = self.worlds[0].now.after(span);
        loop {
            let [first, second] = &mut self.worlds;
            let next = if first.next() <= second.next() { first } else { second };
            if next.next() > until {
                break;
            }
            next.step();
        }
        self.worlds.iter_mut().for_each(|world| world.now = until);
    }
}
