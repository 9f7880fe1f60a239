mod copying;
mod measure;
mod misuse;
mod place;
mod quality;
