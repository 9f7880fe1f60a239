//! A LADSPA library in which other machines' plugins appear as local ones.
