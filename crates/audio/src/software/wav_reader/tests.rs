//! WAV headers and samples.

use std::io::Cursor;

use symphonia::core::io::ReadOnlySource;

use super::*;

fn fmt(tag: u16, channels: u16, block: u16, bits: u16) -> Vec<u8> {
    let mut chunk = [&b"fmt \x10\0\0\0"[..], &tag.to_le_bytes(), &channels.to_le_bytes()].concat();
    chunk.extend(48_000_u32.to_le_bytes());
    chunk.extend((48_000 * u32::from(block)).to_le_bytes());
    chunk.extend(block.to_le_bytes());
    chunk.extend(bits.to_le_bytes());
    chunk
}

fn extensible(
    (tag, channels, block): (u16, u16, u16),
    (bits, valid): (u16, u16),
    mask: u32,
) -> Vec<u8> {
    let mut chunk = fmt(EXTENSIBLE, channels, block, bits);
    chunk[4] = 40;
    chunk.extend(22_u16.to_le_bytes());
    chunk.extend(valid.to_le_bytes());
    chunk.extend(mask.to_le_bytes());
    chunk.extend(tag.to_le_bytes());
    chunk.extend(SUBFORMAT);
    chunk
}

fn chunk(id: &[u8; 4], size: u32, content: &[u8]) -> Vec<u8> {
    [&id[..], &size.to_le_bytes(), content].concat()
}

fn riff(id: &[u8; 4], size: u32, chunks: &[&[u8]]) -> Vec<u8> {
    [&id[..], &size.to_le_bytes(), b"WAVE", &chunks.concat()].concat()
}

fn header(wav: &[u8], length: Option<u64>) -> Option<WavHeader> {
    assert!(is_wav(&wav[..12]));
    WavHeader::read(&mut &wav[..], length).unwrap()
}

fn samples(wav: &[u8]) -> (WavHeader, Vec<f32>) {
    let source: Box<dyn MediaSource> = Box::new(ReadOnlySource::new(Cursor::new(wav.to_vec())));
    let mut input = BufReader::with_capacity(7, source);
    let header = WavHeader::read(&mut input, None).unwrap().unwrap();
    let mut reader = WavReader::new(input, &header, header.coding.clone().unwrap());
    let (mut all, mut some) = (Vec::new(), Vec::new());
    while reader.read(&mut some) {
        assert!(!some.is_empty() && some.len().is_multiple_of(header.channels.into()));
        all.extend_from_slice(&some);
    }
    (header, all)
}

fn steps(fmt: &[u8], data: &[u8]) -> Vec<f32> {
    let data = chunk(b"data", data.len() as u32, data);
    samples(&riff(b"RIFF", 100, &[fmt, &data])).1.iter().map(|s| s * 8_388_608.0).collect()
}

#[test]
fn samples_fill_their_containers_from_above() {
    let top = [0x12, 0x34, 0x56, 0x78];
    for (width, bits, expected) in [
        (1, 8, -0x6e_0000),
        (1, 5, -0x70_0000),
        (2, 16, 0x56_3400),
        (2, 12, 0x56_3000),
        (2, 8, 0x56_0000),
        (3, 24, 0x56_3412),
        (3, 20, 0x56_3410),
        (4, 24, 0x78_5634),
        (4, 20, 0x78_5630),
        (4, 16, 0x78_5600),
        (4, 1, 0),
    ] {
        let data = match width {
            1 => &top[..1],
            2 => &top[1..3],
            3 => &top[..3],
            _ => &top,
        };
        let plain = fmt(PCM, 1, width, bits);
        assert_eq!(steps(&plain, data), [expected as f32], "{bits} bits in {width} bytes");
        let long = extensible((PCM, 1, width), (8 * width, bits), 0);
        assert_eq!(steps(&long, data), [expected as f32], "{bits} bits in {width} bytes");
        let header = header(&riff(b"RIFF", 0, &[&plain, b"data\0\0\0\0"]), None).unwrap();
        let bits = bits.into();
        assert_eq!(header.coding, Ok(WavCoding::Integer { bytes: width.into(), bits }));
    }
    let full = [[0, 0x80], [0xff, 0x7f]].concat();
    assert_eq!(steps(&fmt(PCM, 1, 2, 16), &full), [-8_388_608.0, 8_388_352.0]);
    assert_eq!(steps(&fmt(PCM, 1, 1, 8), &[0, 128, 255]), [-8_388_608.0, 0.0, 8_323_072.0]);
}

#[test]
fn channels_are_counted_by_their_number_not_by_the_mask() {
    for (channels, mask) in
        [(1, 0), (2, 3), (6, 0x3f), (19, 0x3_ffff), (33, 0), (64, u32::MAX), (64, 0)]
    {
        let data: Vec<u8> =
            (0..channels * 3).flat_map(|sample: u16| sample.to_le_bytes()).collect();
        let wav = riff(
            b"RIFF",
            100,
            &[
                &extensible((PCM, channels, 2 * channels), (16, 16), mask),
                &chunk(b"data", data.len() as u32, &data),
            ],
        );
        let (header, all) = samples(&wav);
        assert_eq!((header.channels, header.promised_frames()), (channels, Some(3)));
        let expected: Vec<f32> =
            (0..channels * 3).map(|sample| f32::from(sample) / 32_768.0).collect();
        assert_eq!(all, expected);
    }
    for channels in [0, 65, u16::MAX] {
        let block = channels.wrapping_mul(2);
        let wav = riff(b"RIFF", 0, &[&fmt(PCM, channels, block, 16), b"data\0\0\0\0"]);
        assert_eq!(header(&wav, None).unwrap().channels, channels);
    }
}

#[test]
fn floats_and_telephone_codings_are_read() {
    let floats = [0.1_f32, -0.0, 1.5, f32::MIN_POSITIVE];
    let data: Vec<u8> = floats.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    for fmt in [fmt(FLOAT, 1, 4, 32), extensible((FLOAT, 1, 4), (32, 32), 4)] {
        let wav = riff(b"RIFF", 100, &[&fmt, &chunk(b"data", 16, &data)]);
        let bits = |all: &[f32]| all.iter().map(|sample| sample.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&samples(&wav).1), bits(&floats));
    }
    let coded = |tag| {
        let wav = riff(
            b"RIFF",
            100,
            &[&fmt(tag, 1, 1, 8), &chunk(b"data", 6, &[0x00, 0x80, 0x2a, 0xaa, 0x55, 0xd5])],
        );
        samples(&wav).1.iter().map(|sample| sample * 32_768.0).collect::<Vec<_>>()
    };
    assert_eq!(coded(A_LAW), [-5504.0, 5504.0, -32_256.0, 32_256.0, -8.0, 8.0]);
    let mu: Vec<f32> = [0x00_u8, 0x80, 0xff, 0x7f].iter().map(|b| f32::from(mu_law(*b))).collect();
    assert_eq!(mu, [-32_124.0, 32_124.0, 0.0, 0.0]);
}

#[test]
fn unsupported_wav_header_names_its_values() {
    let refused = |fmt: &[u8]| {
        let wav = riff(b"RIFF", 0, &[fmt, b"data\0\0\0\0"]);
        header(&wav, None).unwrap().coding.unwrap_err()
    };
    let frames = "its frames of 3 bytes do not hold 2 samples of 16 bits";
    assert_eq!(refused(&fmt(PCM, 2, 3, 16)), frames);
    for (channels, block, bits) in [(2, 2, 16), (2, 0, 16), (1, 2, 0), (1, 2, 17), (1, 5, 24)] {
        assert!(
            refused(&fmt(PCM, channels, block, bits)).contains("do not hold"),
            "{block} {bits}"
        );
    }
    assert!(refused(&fmt(FLOAT, 1, 4, 24)).contains("do not hold"));
    assert!(refused(&extensible((PCM, 1, 2), (16, 24), 0)).contains("do not hold"));
    assert_eq!(refused(&fmt(0x11, 1, 256, 4)), "unsupported coding: WAVE format 0x0011");
    let mut other = extensible((PCM, 1, 2), (16, 16), 0);
    other[40] ^= 1;
    assert_eq!(refused(&other), "unsupported coding: WAVE format 0xfffe");
    let double = riff(b"RIFF", 0, &[&fmt(FLOAT, 1, 8, 64), b"data\0\0\0\0"]);
    assert_eq!(header(&double, None).unwrap().coding, Ok(WavCoding::Double));
}

#[test]
fn chunks_around_the_samples_are_skipped() {
    let fmt = fmt(PCM, 1, 2, 16);
    let odd = chunk(b"LIST", 3, b"abc\0");
    let wav = riff(
        b"RIFF",
        100,
        &[
            &chunk(b"JUNK", 28, &[7; 28]),
            &odd,
            &fmt,
            &odd,
            &chunk(b"data", 4, &[0, 64, 0, 32]),
            &odd,
        ],
    );
    assert_eq!(samples(&wav).1, [0.5, 0.25]);
    let wav = riff(b"RIFF", 100, &[&fmt, &chunk(b"data", 3, &[0, 64, 9, 0]), &odd]);
    assert_eq!(samples(&wav).1, [0.5]);
    let mut long = fmt.clone();
    long[4] = 50;
    long.extend([0; 34]);
    let wav = riff(b"RIFF", 100, &[&long, &chunk(b"data", 2, &[0, 64])]);
    assert_eq!(samples(&wav).1, [0.5]);
}

#[test]
fn sizes_of_64_bits_count_when_those_of_32_are_given_up() {
    let fmt = fmt(PCM, 1, 2, 16);
    let ds64 = |data: u64| {
        let longs = [72_u64, data, data / 2].map(u64::to_le_bytes).concat();
        chunk(b"ds64", 28, &[&longs[..], &[0; 4]].concat())
    };
    let sound = [0, 64, 0, 32, 1, 1];
    for id in [b"RF64", b"BW64"] {
        let data = chunk(b"data", u32::MAX, &sound);
        assert_eq!(samples(&riff(id, u32::MAX, &[&ds64(4), &fmt, &data])).1, [0.5, 0.25], "{id:?}");
        let known = riff(id, u32::MAX, &[&ds64(4), &fmt, &chunk(b"data", 2, &sound)]);
        assert_eq!(samples(&known).1, [0.5], "{id:?}");
        let far = riff(id, u32::MAX, &[&ds64(1 << 33), &fmt, &data]);
        let header = header(&far, Some(far.len() as u64)).unwrap();
        assert_eq!((header.promised_frames(), header.held_frames()), (Some(1 << 32), Some(3)));
        let unknown = riff(id, u32::MAX, &[&ds64(u64::MAX), &fmt, &data]);
        assert_eq!(samples(&unknown).0.promised_frames(), None, "{id:?}");
        assert_eq!(samples(&riff(id, u32::MAX, &[&fmt, &data])).0.promised_frames(), None);
    }
}

#[test]
fn placeholders_are_unknown_sizes_in_files_and_pipes() {
    let fmt = fmt(PCM, 1, 2, 16);
    let sound: Vec<u8> = (0..2000_u16).flat_map(u16::to_le_bytes).collect();
    for size in [0, 0x7fff_effc, 0x7fff_f000, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, u32::MAX] {
        for whole in [0, 36, size] {
            let wav = riff(b"RIFF", whole, &[&fmt, &chunk(b"data", size, &sound)]);
            let (pipe, all) = samples(&wav);
            assert_eq!((pipe.promised_frames(), all.len()), (None, 2000), "{size:x} {whole:x}");
            assert_eq!(all[3], 3.0 / 32_768.0);
            let file = header(&wav, Some(wav.len() as u64)).unwrap();
            let frames = (file.promised_frames(), file.held_frames());
            assert_eq!(frames, (None, Some(2000)), "{size:x} {whole:x}");
        }
    }
    let wav = riff(b"RIFF", 0x8000_0024, &[&fmt, &chunk(b"data", 0x8000_0000, &[])]);
    let file = header(&wav, Some(44 + 0x8000_0000)).unwrap();
    assert_eq!(file.promised_frames(), Some(0x4000_0000));
}

#[test]
fn a_file_without_sound_is_empty_also_before_other_chunks() {
    let fmt = fmt(PCM, 1, 2, 16);
    let list = chunk(b"LIST", 4, b"INFO");
    for (size, rest) in [(36, &b""[..]), (0, b""), (48, &list)] {
        let wav = riff(b"RIFF", size, &[&fmt, b"data\0\0\0\0", rest]);
        let (header, all) = samples(&wav);
        assert_eq!((header.promised_frames(), all.len()), (Some(0), 0), "{size}");
    }
    let wav = riff(b"RIFF", 36, &[&fmt, b"data\0\0\0\0", &list]);
    assert_eq!(samples(&wav).1.len(), 6);
}

#[test]
fn a_header_that_is_cut_is_none() {
    let fmt = fmt(PCM, 1, 2, 16);
    let wav = riff(b"RIFF", 100, &[&chunk(b"LIST", 3, b"abc\0"), &fmt, b"data\x04\0\0\0"]);
    for length in 12..wav.len() {
        assert_eq!(header(&wav[..length], None), None, "{length}");
    }
    assert_eq!(header(&riff(b"RIFF", 100, &[b"data\x04\0\0\0", &fmt]), None), None, "no format");
    let mut short = extensible((PCM, 1, 2), (16, 16), 0);
    short.truncate(8 + 18);
    short[4] = 18;
    assert_eq!(header(&riff(b"RIFF", 100, &[&short, b"data\x04\0\0\0"]), None), None);
}

#[test]
fn no_size_takes_memory_or_goes_on_for_ever() {
    let endless = Cursor::new(riff(b"RIFF", u32::MAX, &[b"junk\xff\xff\xff\x7f"]));
    let mut input = endless.chain(std::io::repeat(0).take(1 << 20));
    assert_eq!(WavHeader::read(&mut input, None).unwrap(), None);
}
