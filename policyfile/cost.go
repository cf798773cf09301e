package policyfile

import "github.com/sluicehq/sluice/policy"

// Cost is how many units a request takes: a number, or a mapping.
type Cost struct {
	// Units is a constant; with a header of requests, the cost of a request without it.
	Units int64 `yaml:"units"`
	// Source is constant, header, request_bytes, response_bytes or response_header. What
	// is known only after is settled then. Default: header if Header is given, otherwise constant.
	Source policy.CostSource `yaml:"source"`
	// Header is a header that holds the cost, of the request or of the response. Of
	// requests, clients must not be able to set it.
	Header string `yaml:"header"`
	// Estimate is taken before the cost is known. Default: 1.
	Estimate int64 `yaml:"estimate"`
	// Max caps what a header or a size says. Default: 0, no cap.
	Max int64 `yaml:"max"`
}

func (*Cost) short(list bool) string { return single("units", list) }
