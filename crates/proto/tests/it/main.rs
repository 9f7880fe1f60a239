//! Tests of `proto` in virtual time.

#![expect(
    clippy::duplicate_mod,
    reason = "`road_of_bytes` plays the scenarios of `road` over another wire form"
)]

#[global_allocator]
static ALLOCATOR: tautline_trial::CountingAllocator = tautline_trial::CountingAllocator;

mod avtp;
mod call;
mod call_day;
mod call_limits;
mod call_words;
mod clock;
mod clock_crf;
mod clock_lies;
mod format_evidence;
mod offers;
mod offload_allocation;
mod placement;
mod playout;
mod receiver_bounds;
mod reformat;
mod road;
mod road_of_bytes;
mod sender;
mod servo;
mod session;
mod step;
mod stop;
mod stream;
mod time;
mod tone;
mod units;
mod wire_allocation;
mod wire_avtp;
mod wire_captures;
mod wire_claim;
mod wire_crf;
mod wire_maap;
mod wire_rtcp;
mod wire_rtp;
mod wire_sdp;
mod wire_sdp_lines;
mod wrap;
mod zone;
