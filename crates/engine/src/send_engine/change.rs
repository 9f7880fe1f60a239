//! Changes of a sent stream: the policy decides, this handles sockets.

use tautline_dsp::gain::Gain;
use tautline_io::clock::now;
use tautline_io::link::destinations::Destinations;
use tautline_proto::endpoint::Endpoint;

use crate::control::{Answer, CannotChange, Changed, Destined, Fader, SendChange, SendStanding};
use crate::conversation::Audience;
use crate::monitor::note::Note;
use crate::monitor::run::RunWatch;
use crate::plan::too_long::too_long;
use crate::send_engine::claim::{Follow, follow};
use crate::send_engine::stream::SentStream;
use crate::send_engine::transmitter::TransmitterCommand;

impl SentStream {
    pub(crate) fn follow_claim(&mut self, watch: &mut RunWatch) {
        let Some(followed) = &self.claim else { return };
        let goes_to = self.config.outbound.destinations.first().and_then(|to| match to {
            Endpoint::Ethernet { address, .. } => Some(*address),
            _ => None,
        });
        let before = self.config.address.clone();
        let (address, destinations) = match follow(goes_to, followed.claim.standing()) {
            Follow::Stay => return,
            // Receivers there would get both streams, so packets are dropped until the next claim.
            Follow::Leave(to) => {
                watch.note(&Note::AddressTaken { address: &before, by: followed.endpoint(to) });
                (before, Destinations::NONE)
            }
            Follow::Go(address) => {
                let goes_to = followed.claim.goes_to(address).to_string();
                watch.note(&Note::AddressMoved { from: &before, to: &goes_to });
                (goes_to, Destinations::one(followed.endpoint(address)))
            }
        };
        let destined = Destined { address, destinations, reports_to: Vec::new() };
        self.set_destinations(destined, watch);
        self.take_destinations();
    }

    pub(crate) fn change(&mut self, change: SendChange, watch: &mut RunWatch) -> Answer {
        let changed = match change {
            SendChange::Latency(rule) => {
                self.decide(|policy, context| policy.set_latency(rule, context))?;
                Changed::Latency(rule)
            }
            SendChange::Ptime(ptime) => {
                let ptime = self.decide(|policy, context| policy.set_ptime(ptime, context))?;
                self.note(watch);
                self.note_fragments(watch);
                Changed::Ptime(ptime)
            }
            SendChange::Format(coding) => {
                self.decide(|policy, context| policy.set_coding(coding, context))?;
                self.note(watch);
                self.note_fragments(watch);
                Changed::Format(coding)
            }
            SendChange::Adapt(limits) => {
                self.decide(|policy, context| policy.adapt_within(limits, context));
                Changed::Sending(self.standing())
            }
            SendChange::Volume(gain) => self.set_volume(gain, self.fader.muted)?,
            SendChange::Mute(muted) => self.set_volume(self.fader.gain, muted)?,
            SendChange::Redundancy(requested) => {
                self.policy.set_redundancy(requested)?;
                Changed::Redundancy(requested, self.policy.bounds().budget)
            }
            SendChange::To(destined) => self.set_destinations(*destined, watch),
            SendChange::Status => Changed::Sending(self.standing()),
        };
        self.note(watch);
        Ok(changed)
    }

    fn set_volume(&mut self, gain: Gain, muted: bool) -> Result<Changed, CannotChange> {
        let fader = Fader { gain, muted };
        let command = TransmitterCommand::Gain(fader.wanted());
        self.commands.push(command).map_err(|_| CannotChange::Busy)?;
        self.fader = fader;
        Ok(Changed::Volume(fader))
    }

    pub(crate) fn set_destinations(&mut self, destined: Destined, watch: &mut RunWatch) -> Changed {
        self.config.outbound.destinations = destined.destinations.iter().collect();
        self.config.address.clone_from(&destined.address);
        if let Audience::All(reported) = &mut self.conversation.audience {
            let new = destined.reports_to.iter().filter(|one| !reported.contains(one));
            let new: Vec<Endpoint> = new.copied().collect();
            reported.extend(new);
        }
        let hosts = self.config.outbound.destinations.iter().map(Endpoint::host).collect();
        self.policy.set_destinations(hosts, now());
        self.destined = Some(destined);
        self.note_fragments(watch);
        Changed::To(self.config.address.clone())
    }

    /// Switches to the latest destinations if receivers there know our clock.
    pub(crate) fn go_to_destinations(&mut self) {
        if self.policy.destinations_due(now()) {
            self.take_destinations();
        }
    }

    fn take_destinations(&mut self) {
        let Some(destined) = self.destined.take() else { return };
        if self.commands.push(TransmitterCommand::Destinations(destined.destinations)).is_err() {
            self.destined = Some(destined);
            return;
        }
        self.policy.destinations_taken();
        if let Audience::All(reported) = &mut self.conversation.audience {
            let before = core::mem::replace(reported, destined.reports_to);
            let gone = before.into_iter().filter(|one| !reported.contains(one));
            let gone: Vec<Endpoint> = gone.collect();
            self.conversation.leave_those(&gone);
        }
    }

    fn standing(&self) -> SendStanding {
        let policy = &self.policy;
        SendStanding {
            latency: policy.link_offset(),
            auto: policy.is_as_needed(),
            ptime: policy.format().ptime(),
            format: policy.format().coding(),
            redundancy: policy.redundancy(),
            repair_budget: policy.bounds().budget,
            volume: self.fader,
            address: self.config.address.clone(),
            receivers: policy.receiver_counts(),
        }
    }

    fn note_fragments(&self, watch: &mut RunWatch) {
        let format = self.policy.format();
        let bytes = self.policy.datagram_bytes();
        let to = self.config.outbound.destinations.iter().filter_map(Endpoint::socket_address);
        for too_long in too_long(to, bytes, &format) {
            watch.note(&Note::Fragments { too_long: &too_long, ptime: format.ptime() });
        }
    }
}
