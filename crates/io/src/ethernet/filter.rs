//! Which frames the kernel hands on: a program that it runs for each (Documentation/networking/filter.rst).

use std::io;

use tautline_proto::packet::StreamId;
use tautline_proto::wire::avtp::maap;

use super::EthernetAddress;
use crate::socket::descriptor::Socket;

/// `BPF_LD | BPF_ABS` with the width, `BPF_JMP | BPF_JEQ | BPF_K`, `BPF_RET | BPF_K` (linux/bpf_common.h).
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const IS: u16 = 0x15;
const RETURN: u16 = 0x06;
/// Loads from here on are of the frame's head (`SKF_LL_OFF`, linux/filter.h).
const HEAD: u32 = -0x20_0000_i32 as u32;
const WHOLE: u32 = u32::MAX;

/// A load, its offset and the value that it must have.
type Condition = (u16, u32, u32);

/// Passes frames to `address` with AVTP of this subtype, of `stream` alone if there is one.
pub(super) fn attach(
    socket: &Socket,
    subtype: u8,
    address: EthernetAddress,
    stream: Option<StreamId>,
) -> io::Result<()> {
    run(socket, &of_stream(subtype, address, stream))
}

/// Passes messages of MAAP alone, whatever their destination: defences go to one host.
pub(super) fn attach_maap(socket: &Socket) -> io::Result<()> {
    run(socket, &[(LOAD_BYTE, 0, maap::SUBTYPE.into())])
}

fn run(socket: &Socket, conditions: &[Condition]) -> io::Result<()> {
    let program = program(conditions);
    let program =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    socket.set_plain(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn of_stream(subtype: u8, address: EthernetAddress, stream: Option<StreamId>) -> Vec<Condition> {
    let [a, b, c, d, e, f] = address;
    let mut conditions: Vec<Condition> = vec![
        (LOAD_BYTE, 0, subtype.into()),
        (LOAD_WORD, HEAD, u32::from_be_bytes([a, b, c, d])),
        (LOAD_HALF, HEAD.wrapping_add(4), u16::from_be_bytes([e, f]).into()),
    ];
    if let Some(StreamId(id)) = stream {
        conditions.extend([(LOAD_WORD, 4, (id >> 32) as u32), (LOAD_WORD, 8, id as u32)]);
    }
    conditions
}

fn program(conditions: &[Condition]) -> Vec<libc::sock_filter> {
    let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let mut program = Vec::new();
    for (index, (load, at, value)) in conditions.iter().enumerate() {
        // A mismatch jumps over the conditions that are left and the return of a match.
        let left = conditions.len() - 1 - index;
        program.extend([step(*load, 0, *at), step(IS, (2 * left + 1) as u8, *value)]);
    }
    program.extend([step(RETURN, 0, WHOLE), step(RETURN, 0, 0)]);
    program
}
