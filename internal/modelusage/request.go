package modelusage

import "errors"

// Request is what the body of a request says about its cost.
type Request struct {
	Model         string // the model, or the deployment; the path decides if it names one
	MaxOutput     int64  // the most output tokens of all choices together; -1 if the request does not limit them
	Stream        bool   // the answer is a stream; the path decides for Gemini
	IncludesUsage bool   // the stream of OpenAI's format reports its usage, because stream_options.include_usage is true
}

// ErrAmbiguous is the error for a body that services read in different ways: a member that decides appears twice, or its
// name has other letters in upper case.
var ErrAmbiguous = errors.New("modelusage: the request is ambiguous")

// ReadRequest reads the whole body of a request. The errors name the member and the remedy: the body is not a JSON object,
// a member that decides has a value of a wrong type, or it is ambiguous (errors.Is ErrAmbiguous).
//
// ReadRequest does not keep body. It may be called from several goroutines.
func ReadRequest(f Format, path string, body []byte) (Request, error) {
	r := Request{Model: ModelOfPath(path), MaxOutput: -1}
	if f == Unknown {
		return r, nil
	}
	return r, errors.New("modelusage: bodies cannot be read yet")
}

// AddIncludeUsage returns a copy of the body with stream_options.include_usage true, and true. It returns the body itself and
// false if the format has no such member, if the answer is not a stream, if the body includes the usage already, or if
// ReadRequest cannot read the body.
func AddIncludeUsage(_ Format, body []byte) ([]byte, bool) {
	return body, false
}
