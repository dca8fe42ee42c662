//! Rules that random traces do not pin down.
