use tautline_proto::wire::framed::{FrameReader, LENGTH_BYTES, length};

const MAX_FRAME: usize = 300;

/// RFC 4571 frames do not depend on the pieces read, whose length is in the first byte.
pub fn framed(bytes: &[u8]) {
    let Some((step, bytes)) = bytes.split_first() else { return };
    let step = usize::from(*step) + 1;
    let (mut reader, mut left) = (FrameReader::new(MAX_FRAME, 64), bytes);
    let (mut expected, mut refused) = (bytes, false);
    while !left.is_empty() && !refused {
        let room = reader.room();
        let count = left.len().min(room.len()).min(step);
        assert!(count > 0, "the reader always has room");
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
                    assert!((1..=MAX_FRAME).contains(&frame.len()));
                    expected = rest;
                }
                Err(long) => {
                    assert!(long.length > MAX_FRAME);
                    refused = true;
                    break;
                }
            }
        }
    }
}
