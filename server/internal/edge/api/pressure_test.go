package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// pressed are rules whose names an autoscaler must be able to select, dots and dashes included.
const pressed = `
rules:
  - {name: one-replica, key: global, limit: {algorithm: token_bucket, rate: 100/s}, shadow: true}
  - {name: v1.api_2, key: client_ip, limit: {algorithm: token_bucket, rate: 20/s}}
`

// scaled reads a number as KEDA's metrics-api scaler does: a 200, and a JSON number at the GJSON path
// that the trigger has as its valueLocation.
func (s *service) scaled(path, valueLocation string) (float64, error) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer a secret")
	res, err := s.described.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%d %s", res.StatusCode, body)
	}
	value := gjson.GetBytes(body, valueLocation)
	if value.Type != gjson.Number {
		return 0, fmt.Errorf("%s is a %v in %s", valueLocation, value.Type, body)
	}
	return value.Num, nil
}

// KEDA's metrics-api scaler finds the pressure on a rule as a number, by a path into the answer for one
// rule or for all.
func TestPressureAsMetricsAPIScalersReadIt(t *testing.T) {
	pressures := map[string]float64{"one-replica": 3.375, "v1.api_2": 0}
	s := serve(t, pressed, func(o *Options) {
		o.Pressure = func(rule string) float64 { return pressures[rule] }
		o.Authorize = func(r *http.Request) error {
			if r.Header.Get("Authorization") != "Bearer a secret" {
				return errors.New("give the token")
			}
			return nil
		}
	})
	for _, c := range []struct {
		path, valueLocation string
		want                float64
	}{
		{"/v1/pressure/one-replica", "pressure", 3.375},
		{"/v1/pressure/v1.api_2", "pressure", 0},
		{"/v1/pressure", "pressures.one-replica", 3.375},
		{"/v1/pressure", `pressures.v1\.api_2`, 0},
	} {
		if got, err := s.scaled(c.path, c.valueLocation); err != nil || got != c.want {
			t.Errorf("%s, %s: %v, %v; want %v", c.path, c.valueLocation, got, err, c.want)
		}
	}
	// Very small and very large numbers are JSON numbers too.
	for _, want := range []float64{1e-9, 1e15} {
		pressures["one-replica"] = want
		if got, err := s.scaled("/v1/pressure/one-replica", "pressure"); err != nil || got != want {
			t.Errorf("%v is read as %v, %v", want, got, err)
		}
	}
}

// A rule that does not exist is an error, so that the scaler uses its fallback and does not scale to zero.
func TestPressureOfAnUnknownRule(t *testing.T) {
	s := serve(t, pressed, operators)
	for path, status := range map[string]string{
		"/v1/pressure/one-replicas":     "404",
		"/v1/pressure/one-replica/more": "404",
		"/v1/pressure/":                 "404",
	} {
		if got, err := s.scaled(path, "pressure"); err == nil || !strings.HasPrefix(err.Error(), status) {
			t.Errorf("%s: pressure %v, error %v; want status %s", path, got, err, status)
		}
	}
	if _, err := s.scaled("/v1/pressure/one-replicas", "pressure"); err == nil || !strings.Contains(err.Error(), "the rules are one-replica, v1.api_2") {
		t.Errorf("an unknown rule: %v", err)
	}
}

func TestPressureNeedsAuthorization(t *testing.T) {
	s := serve(t, pressed, nil)
	for _, path := range []string{"/v1/pressure", "/v1/pressure/one-replica"} {
		if got, err := s.scaled(path, "pressure"); err == nil || !strings.HasPrefix(err.Error(), "401") {
			t.Errorf("%s without a token: pressure %v, error %v", path, got, err)
		}
	}
}
