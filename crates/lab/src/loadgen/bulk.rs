use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use tautline_io::clock::now;
use tautline_proto::time::{LocalTime, Span};

use super::datagrams::is_no_news;
use super::{BEAT, LoadgenError, LoadgenReport, Until};
use crate::impair::BitRate;

const PIECE: usize = 1 << 16;
/// Timeout of connecting, as the sink may be starting.
const TIMEOUT: Span = Span::from_secs(3);

fn beat() -> Duration {
    Duration::from_nanos(BEAT.as_nanos() as u64)
}

pub(super) fn send(
    to: SocketAddr,
    rate: Option<BitRate>,
    until: &Until<'_>,
) -> Result<LoadgenReport, LoadgenError> {
    let failed = |error| LoadgenError::Socket { what: "sending via TCP to", address: to, error };
    let given_up = now() + TIMEOUT;
    let mut stream = loop {
        match TcpStream::connect_timeout(&to, Duration::from_nanos(TIMEOUT.as_nanos() as u64)) {
            Ok(stream) => break stream,
            Err(error) if error.kind() != ErrorKind::ConnectionRefused || now() >= given_up => {
                return Err(failed(error));
            }
            Err(_) => tautline_io::clock::sleep_until(now() + BEAT),
        }
    };
    stream.set_write_timeout(Some(beat())).map_err(failed)?;
    let piece = [0; PIECE];
    let mut tally = LoadgenReport::default();
    let begun = now();
    while until.sleep(rate.map_or(begun, |rate| begun + takes(tally.bytes, rate))) {
        match stream.write(&piece) {
            Ok(bytes) => {
                tally.packets += 1;
                tally.bytes += bytes as u64;
            }
            Err(error) if is_no_news(&error) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(tally)
}

fn takes(bytes: u64, rate: BitRate) -> Span {
    let nanos = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(rate.0.max(1));
    Span::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX / 2))
}

fn listening(address: SocketAddr) -> impl Fn(io::Error) -> LoadgenError + Copy {
    move |error| LoadgenError::Socket { what: "listening for TCP at", address, error }
}

pub(super) fn receive(at: SocketAddr, until: &Until<'_>) -> Result<LoadgenReport, LoadgenError> {
    let listener = TcpListener::bind(at).map_err(listening(at))?;
    receive_by(&listener, at, until)
}

pub(super) fn receive_by(
    listener: &TcpListener,
    at: SocketAddr,
    until: &Until<'_>,
) -> Result<LoadgenReport, LoadgenError> {
    let failed = listening(at);
    listener.set_nonblocking(true).map_err(failed)?;
    let mut tally = LoadgenReport::default();
    let mut room = vec![0; PIECE];
    let mut next: LocalTime = now();
    while until.sleep(next) {
        match listener.accept() {
            Ok((stream, _)) => drain(stream, &mut room, &mut tally, until).map_err(failed)?,
            Err(error) if is_no_news(&error) => next = now() + Span::from_millis(5),
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(tally)
}

fn drain(
    mut stream: TcpStream,
    room: &mut [u8],
    tally: &mut LoadgenReport,
    until: &Until<'_>,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(beat()))?;
    while !until.is_over() {
        match stream.read(room) {
            Ok(0) => break,
            Ok(bytes) => {
                tally.since.get_or_insert_with(now);
                tally.packets += 1;
                tally.bytes += bytes as u64;
            }
            Err(error) if is_no_news(&error) => {}
            Err(_) => break,
        }
    }
    Ok(())
}
