//! What can be asked.

/// A call of the API: all there are, as the description has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiCall {
    /// Every plugin that is offered.
    Catalogue,
    /// What is taken and what is left.
    Capacity,
    /// How all streams stand.
    Streams,
    /// A stream is wanted.
    Open,
    Stream,
    /// One is to end.
    Close,
    /// What the API is.
    Openapi,
}

impl ApiCall {
    pub const ALL: [Self; 7] = [
        Self::Catalogue,
        Self::Capacity,
        Self::Streams,
        Self::Open,
        Self::Stream,
        Self::Close,
        Self::Openapi,
    ];

    /// Where it is asked.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Catalogue => "/v1/catalogue",
            Self::Capacity => "/v1/capacity",
            Self::Streams | Self::Open => "/v1/streams",
            Self::Stream | Self::Close => "/v1/streams/{id}",
            Self::Openapi => "/v1/openapi.json",
        }
    }

    /// The method of HTTP, in the small letters of a description.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Open => "post",
            Self::Close => "delete",
            Self::Catalogue | Self::Capacity | Self::Streams | Self::Stream | Self::Openapi => {
                "get"
            }
        }
    }
}
