// Package scaler tells KEDA the pressure on rules, so that it scales what they
// protect: it is an external scaler, over gRPC, with the health and reflection
// services beside it. It decides about no request.
package scaler
