//! A wait-free ring of bytes between two threads, read and written a datagram at a time. How long
//! each is, the other ring beside it says.

use rtrb::{Consumer, Producer};

use crate::thread::memory;

/// A ring that holds at least `capacity` bytes.
pub(crate) fn bytes(capacity: usize) -> (ByteWriter, ByteReader) {
    let (producer, consumer) = memory::ring(capacity.max(1));
    let mut joined = vec![0; capacity].into_boxed_slice();
    memory::prefault(&mut joined);
    (ByteWriter(producer), ByteReader { consumer, joined })
}

pub(crate) struct ByteWriter(Producer<u8>);

impl ByteWriter {
    /// Puts all of `datagram` in, or nothing: false.
    pub(crate) fn write(&mut self, datagram: &[u8]) -> bool {
        self.0.push_entire_slice(datagram).is_ok()
    }
}

pub(crate) struct ByteReader {
    consumer: Consumer<u8>,
    /// Where a datagram is put together that goes over the ring's end.
    joined: Box<[u8]>,
}

impl ByteReader {
    /// Hands the next `len` bytes to `take` and removes them; does nothing if there are fewer.
    pub(crate) fn read(&mut self, len: usize, take: impl FnOnce(&[u8])) {
        let Ok(chunk) = self.consumer.read_chunk(len) else { return };
        match chunk.as_slices() {
            (all, []) => take(all),
            (head, tail) => {
                let joined = &mut self.joined[..len];
                joined[..head.len()].copy_from_slice(head);
                joined[head.len()..].copy_from_slice(tail);
                take(joined);
            }
        }
        chunk.commit_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_come_out_whole_wherever_the_ring_ends() {
        let (mut writer, mut reader) = bytes(10);
        for start in 0..50u8 {
            let datagram: Vec<u8> = (start..start + 7).collect();
            assert!(writer.write(&datagram));
            assert!(!writer.write(&[0; 4]), "no room for a part of it either");
            let mut read = Vec::new();
            reader.read(7, |bytes| read.extend_from_slice(bytes));
            assert_eq!(read, datagram);
        }
    }
}
