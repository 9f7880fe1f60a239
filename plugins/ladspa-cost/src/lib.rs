//! LADSPA plugins that copy their input and take a given time over it.
