//! The places that callers have: each with a UDP port of its own, and the engines of its call while there is one.

use std::net::{SocketAddr, TcpStream, UdpSocket};

use tautline_api::call::{MediaTicket, PROBE_BYTES, ProbeWay};
use tautline_io::clock::now;
use tautline_io::link::muxed::FarAddress;
use tautline_proto::call::path::PathSilence;
use tautline_proto::call::terms::{CallPath, CallTerms};
use tautline_proto::device::Stop;
use tautline_report::Report;

use super::transport::CalledTransport;
use crate::cmd::call_end::{
    CallEnd, CallSide, EndSetup, EndSound, EndedSound, FarStatus, SharedSound, bind, directions,
    tcp_line, udp_line,
};
use crate::failure::Failure;
use crate::voice::Voice;

/// Probes that are answered in one beat.
const MOST_PROBES: usize = 16;
/// Datagrams of calls before that are let go of as one begins: as many as a socket holds.
const MOST_STALE: usize = 1024;

pub(super) struct CallSeat {
    socket: UdpSocket,
    call: Option<SeatedCall>,
}

struct SeatedCall {
    who: String,
    transport: CalledTransport,
    /// While it has sound.
    end: Option<CallEnd>,
    /// Whether any of it comes.
    silence: PathSilence,
    /// Whether it had any: what follows has keys of its own.
    sounded: bool,
    /// What people see of its sound, and the how many-th that is.
    far: FarStatus,
    number: u64,
}

/// What people see of all calls.
pub(super) struct CallsSeen {
    /// Of those that have had sound for the shortest time, these first.
    pub(super) pages: Vec<String>,
    /// Calls that have sound, and that have none.
    pub(super) sounding: usize,
    pub(super) quiet: usize,
}

pub(super) struct CallSeats {
    seats: Vec<CallSeat>,
    voice: Voice,
    /// Calls that are over, until their engines are.
    ending: Vec<CallEnd>,
    /// Of those whose engines are.
    ended: EndedSound,
    /// Calls that were recorded.
    recorded: u32,
    seen: bool,
    /// Sounds that there were.
    sounds: u64,
}

impl CallSeats {
    /// Binds so many UDP ports, from that of `address` on. If the user did not ask for that port, busy ones are
    /// replaced.
    pub(super) fn bind(
        address: SocketAddr,
        asked: bool,
        callers: u16,
        voice: Voice,
    ) -> Result<Self, Failure> {
        let mut seats = Vec::new();
        for seat in 0..callers {
            let port = address.port().checked_add(seat).ok_or_else(|| {
                Failure::usage(format!(
                    "no {callers} UDP ports follow {}; listen at a lower port, or use fewer --callers",
                    address.port()
                ))
            })?;
            let bound = bind(SocketAddr::new(address.ip(), port));
            let socket = match bound {
                Err(_) if !asked => bind(SocketAddr::new(address.ip(), 0)),
                bound => bound,
            }?;
            let blocking = |error: std::io::Error| Failure::running(format!("{error}; try again"));
            socket.set_nonblocking(true).map_err(blocking)?;
            seats.push(CallSeat { socket, call: None });
        }
        let (ending, ended) = Default::default();
        Ok(Self { seats, voice, ending, ended, recorded: 0, seen: false, sounds: 0 })
    }

    /// Whether somebody looks from now on.
    pub(super) const fn are_seen(&mut self, seen: bool) {
        self.seen = seen;
    }

    /// The UDP port of each.
    pub(super) fn ports(&self) -> Result<Vec<u16>, Failure> {
        let port = |seat: &CallSeat| seat.socket.local_addr().map(|address| address.port());
        let ports: std::io::Result<Vec<u16>> = self.seats.iter().map(port).collect();
        ports.map_err(|error| Failure::running(format!("{error}; try again")))
    }

    /// A call begins at this place, without sound.
    pub(super) fn begin(&mut self, place: usize, who: String, transport: CalledTransport) {
        self.end(place);
        let Some(seat) = self.seats.get_mut(place) else { return };
        let mut stale = [0; 1];
        for _ in 0..MOST_STALE {
            if seat.socket.recv_from(&mut stale).is_err() {
                break;
            }
        }
        let far = FarStatus::default();
        let silence = PathSilence::new(now());
        let (end, sounded) = (None, false);
        seat.call = Some(SeatedCall { who, transport, end, silence, sounded, far, number: 0 });
    }

    /// Whether the call at this place has sound.
    pub(super) fn sounds(&self, place: usize) -> bool {
        self.call(place).is_some_and(|call| call.end.is_some())
    }

    /// The call at this place has sound from now on.
    pub(super) fn sound(
        &mut self,
        place: usize,
        mut setup: EndSetup<'_>,
        sound: &mut SharedSound,
        stop: &Stop,
    ) -> Result<(), Failure> {
        let sounding = self.sounding();
        (setup.recorded_before, setup.witness) = (self.recorded, sounding == 0);
        setup.sounding = sounding + 1;
        let Some(seat) = self.seats.get_mut(place) else { return Ok(()) };
        let socket = seat.again()?;
        let Some(call) = &mut seat.call else { return Ok(()) };
        let part = sound.take().ok_or_else(|| {
            Failure::running("no part of the devices is left for it; call again in a moment")
        })?;
        if call.sounded && !call.transport.sounds_anew() {
            return Err(Failure::running("no keys are left for this call; call anew"));
        }
        let keys = call.transport.keys();
        // Of what it sounded like before nothing is seen.
        call.far = FarStatus::of(Some(call.who.clone()));
        if self.seen {
            setup.onlookers.push(call.far.onlookers());
        }
        self.sounds += 1;
        call.number = self.sounds;
        let (mut end, ()) = CallEnd::begin(&setup, EndSound::Part(part), stop, |link| {
            let far = FarAddress::Newest;
            let line = udp_line(socket, &link.udp, far, (&keys, CallSide::Called))?;
            link.switch.exchange(line);
            Ok(())
        })?;
        if let Some(recordings) = &mut end.recordings {
            self.recorded = recordings.calls();
        }
        (call.end, call.sounded) = (Some(end), true);
        call.silence = PathSilence::new(now());
        Ok(())
    }

    /// Calls that have sound.
    fn sounding(&self) -> usize {
        let calls = self.seats.iter().filter_map(|seat| seat.call.as_ref());
        calls.filter(|call| call.end.is_some()).count()
    }

    /// The sound of the call at this place is over, and its line is not.
    pub(super) fn hold(&mut self, place: usize) {
        let call = self.seats.get_mut(place).and_then(|seat| seat.call.as_mut());
        if let Some(end) = call.and_then(|call| call.end.take()) {
            end.stop();
            self.ending.push(end);
        }
    }

    /// The call at this place is over.
    pub(super) fn end(&mut self, place: usize) {
        self.hold(place);
        self.seats.get_mut(place).iter_mut().for_each(|seat| seat.call = None);
    }

    fn call(&self, place: usize) -> Option<&SeatedCall> {
        self.seats.get(place)?.call.as_ref()
    }

    /// How all calls stand, and of so many in full; `microphone` is a word.
    pub(super) fn seen(&mut self, most: usize, microphone: &str) -> CallsSeen {
        let calls = self.seats.iter_mut().filter_map(|seat| seat.call.as_mut());
        let (mut sounding, quiet): (Vec<_>, Vec<_>) = calls.partition(|call| call.end.is_some());
        sounding.sort_by_key(|call| core::cmp::Reverse(call.number));
        let newest = sounding.iter_mut().take(most);
        let pages = newest.flat_map(|call| call.far.page(microphone, call.transport.path));
        CallsSeen { pages: pages.collect(), sounding: sounding.len(), quiet: quiet.len() }
    }

    /// Who calls at this place.
    pub(super) fn who(&self, place: usize) -> &str {
        self.call(place).map_or("a caller", |call| &call.who)
    }

    /// The call at this place sounds by these terms from now on.
    pub(super) fn adopt(&self, place: usize, terms: &CallTerms) {
        let Some(call) = self.call(place) else { return };
        let Some(end) = &call.end else { return };
        let ways = directions(terms, CallSide::Called);
        if let Err(why) = end.adopt(ways, terms.latency) {
            self.voice.tell(&format!("{}: {}", call.who, crate::words::cannot_change(&why)));
        }
    }

    /// The caller says by what its sound goes.
    pub(super) fn go_by(
        &mut self,
        place: usize,
        path: CallPath,
        number: u32,
    ) -> Result<(), Failure> {
        let Some(seat) = self.seats.get_mut(place) else { return Ok(()) };
        let Some(call) = &mut seat.call else { return Ok(()) };
        if !call.transport.goes_by(path, number) {
            return Ok(());
        }
        let Some(end) = &mut call.end else { return Ok(()) };
        self.voice.tell(&format!("{}: the sound goes by UDP from now on", call.who));
        let keys = call.transport.keys();
        let socket = again(&seat.socket)?;
        let udp = &end.link.udp;
        let line = udp_line(socket, udp, FarAddress::Newest, (&keys, CallSide::Called))?;
        end.link.switch.exchange(line);
        Ok(())
    }

    /// A connection that is to carry the sound of a call: whether it belongs to one.
    pub(super) fn take_connection(&mut self, ticket: &MediaTicket, stream: TcpStream) -> bool {
        let mut calls = self.seats.iter_mut().filter_map(|seat| seat.call.as_mut());
        let Some(call) = calls.find_map(|call| call.transport.takes(ticket).then_some(call)) else {
            return false;
        };
        let keys = call.transport.keys();
        let Some(end) = &mut call.end else { return true };
        // One that is gone already is followed by another.
        if let Ok((line, _)) = tcp_line(stream, &end.link, (&keys, CallSide::Called)) {
            end.link.switch.exchange(line);
            self.voice.tell(&format!("{}: the sound goes by TCP from now on", call.who));
        }
        true
    }

    /// Does what is to be done now and then: of what is over, the report is kept.
    pub(super) fn turn(&mut self) {
        for seat in &mut self.seats {
            seat.answer_probes();
            let Some(end) = seat.call.as_mut().and_then(|call| call.end.as_mut()) else { continue };
            end.link.switch.collect();
            if let Some(recordings) = &mut end.recordings {
                recordings.turn();
            }
        }
        let over: Vec<CallEnd> = self.ending.extract_if(.., |end| end.has_ended()).collect();
        over.into_iter().for_each(|end| self.keep(end));
    }

    /// The places of calls of which nothing comes by UDP, with the number of the transport, once in each second of that.
    pub(super) fn unheard(&mut self) -> Vec<(usize, u32)> {
        let silent = |(place, seat): (usize, &mut CallSeat)| {
            let call = seat.call.as_mut()?;
            let (heard, number) = (call.end.as_ref()?.link.heard(), call.transport.number());
            let silent = call.silence.poll(heard, number, now());
            (silent && call.transport.path == CallPath::Udp).then_some((place, number))
        };
        self.seats.iter_mut().enumerate().filter_map(silent).collect()
    }

    fn keep(&mut self, end: CallEnd) {
        let left = end.end().unwrap_or_else(|failure| (Vec::new(), Err(failure)));
        if let Some(failed) = self.ended.keep(left) {
            self.voice.tell(&failed);
        }
    }

    /// Ends all calls: the reports of the newest, those of what was heard before those of what was sent, and whether all
    /// went well.
    pub(super) fn finish(mut self) -> (Vec<Report>, Result<(), Failure>) {
        (0..self.seats.len()).for_each(|place| self.end(place));
        core::mem::take(&mut self.ending).into_iter().for_each(|end| self.keep(end));
        self.ended.finish()
    }
}

impl CallSeat {
    fn again(&self) -> Result<UdpSocket, Failure> {
        again(&self.socket)
    }

    /// Sends back what asks whether UDP carries, while the sound goes by TCP.
    fn answer_probes(&self) {
        let Some(SeatedCall { transport, .. }) = &self.call else { return };
        if transport.path == CallPath::Udp {
            return;
        }
        let mut probe = [0; PROBE_BYTES + 1];
        // As many as there may be: one in half a second is sent.
        for _ in 0..MOST_PROBES {
            let Ok((count, from)) = self.socket.recv_from(&mut probe) else { return };
            if let Some(count) = transport.probes.read(ProbeWay::There, &probe[..count]) {
                let _ = self.socket.send_to(&transport.probes.written(ProbeWay::Back, count), from);
            }
        }
    }
}

fn again(socket: &UdpSocket) -> Result<UdpSocket, Failure> {
    socket.try_clone().map_err(|error| {
        Failure::running(format!("opening the UDP socket once more: {error}; raise ulimit -n"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_ports_are_replaced_unless_the_user_asked_for_them() {
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let busy = other.local_addr().unwrap();
        let bound = |asked| CallSeats::bind(busy, asked, 1, Voice::Quiet);
        let ports = bound(false).unwrap().ports().unwrap();
        assert!(ports.len() == 1 && ports[0] != busy.port(), "{ports:?}");
        assert!(bound(true).is_err());
    }
}
