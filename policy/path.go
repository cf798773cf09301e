package policy

// Paths says how paths are cleaned before they are matched and used in keys, so
// that all spellings by which a service finds the same handler are one path. The
// zero Paths fits most services.
//
// Clean always removes empty and "." segments, resolves ".." (percent-encoded
// dots too), removes the trailing slash, decodes what needs no percent-encoding and
// encodes the rest in upper case.
type Paths struct {
	// IgnoreCase lowers ASCII letters, for services that route without regard to case.
	IgnoreCase bool
	// DecodeSlashes takes "%2F" for a slash, as services do that decode a path
	// before they split it. Otherwise "%2F" is part of its segment, as net/http's
	// ServeMux sees it.
	DecodeSlashes bool
	// StripParams removes what follows a semicolon in each segment, as Java's
	// servlet containers do.
	StripParams bool
}
