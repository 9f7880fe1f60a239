//! Scenarios by subject. Each one can be replayed from its seed.

#[global_allocator]
static ALLOCATOR: tautline_trial::CountingAllocator = tautline_trial::CountingAllocator;

mod a_call_goes_on_through_whatever_its_network_does;
mod a_call_on_a_thin_link_is_understood;
mod a_call_repairs_what_its_path_loses;
mod a_day_of_sound_grows_neither_late_nor_large;
mod a_stream_follows_what_its_path_carries;
mod cards;
mod changes;
mod clocks;
mod each_sender_on_a_shared_link_is_received_separately;
mod latencies;
mod losses;
mod offload;
mod outages;
mod packets_are_no_longer_than_their_path_carries;
mod sender_faults;
mod sound_that_either_end_does_not_hear_goes_by_tcp;
mod talkers;
mod zones;
