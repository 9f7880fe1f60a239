//! Bytes of a connection for the reader of RFC 4571, in pieces as the first byte says: whatever they are, datagrams come out
//! as a reader would find them that has all bytes at once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_proto::wire::framed::{FrameReader, LENGTH_BYTES, length};

const MOST: usize = 300;

fuzz_target!(|bytes: &[u8]| {
    let Some((step, bytes)) = bytes.split_first() else { return };
    let step = usize::from(*step) + 1;
    let (mut reader, mut left) = (FrameReader::new(MOST, 64), bytes);
    let (mut expected, mut refused) = (bytes, false);
    while !left.is_empty() && !refused {
        let room = reader.room();
        let count = left.len().min(room.len()).min(step);
        assert!(count > 0, "there is always room for what is to come");
        room[..count].copy_from_slice(&left[..count]);
        left = &left[count..];
        reader.filled(count);
        loop {
            match reader.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    while let Some(rest) = expected.strip_prefix(&[0; LENGTH_BYTES]) {
                        expected = rest;
                    }
                    let (head, rest) = expected.split_at(LENGTH_BYTES + frame.len());
                    assert_eq!(Some(&head[..LENGTH_BYTES]), length(frame).as_ref().map(|l| &l[..]));
                    assert_eq!(&head[LENGTH_BYTES..], frame);
                    assert!((1..=MOST).contains(&frame.len()));
                    expected = rest;
                }
                Err(long) => {
                    assert!(long.length > MOST);
                    refused = true;
                    break;
                }
            }
        }
    }
});
