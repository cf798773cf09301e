package app

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/tidwall/gjson"

	"github.com/sluicehq/sluice/server/internal/config"
)

// scaledObject is what KEDA reads of a ScaledObject.
type scaledObject struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		ScaleTargetRef  struct{ Name string } `yaml:"scaleTargetRef"`
		MinReplicaCount int                   `yaml:"minReplicaCount"`
		MaxReplicaCount int                   `yaml:"maxReplicaCount"`
		Fallback        struct {
			FailureThreshold int `yaml:"failureThreshold"`
			Replicas         int
		}
		Triggers []struct {
			Type              string
			MetricType        string `yaml:"metricType"`
			Metadata          map[string]string
			AuthenticationRef struct{ Name string } `yaml:"authenticationRef"`
		}
	}
}

// podAutoscaler is what Kubernetes reads of a HorizontalPodAutoscaler.
type podAutoscaler struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		ScaleTargetRef struct {
			APIVersion string `yaml:"apiVersion"`
			Kind, Name string
		} `yaml:"scaleTargetRef"`
		MinReplicas int `yaml:"minReplicas"`
		MaxReplicas int `yaml:"maxReplicas"`
		Metrics     []struct {
			Type     string
			External struct {
				Metric struct {
					Name     string
					Selector struct {
						MatchLabels map[string]string `yaml:"matchLabels"`
					}
				}
				Target struct {
					Type         string
					AverageValue string `yaml:"averageValue"`
				}
			}
		}
	}
}

// adapter is the configuration of prometheus-adapter.
type adapter struct {
	ExternalRules []struct {
		SeriesQuery  string `yaml:"seriesQuery"`
		MetricsQuery string `yaml:"metricsQuery"`
		Resources    struct{ Namespaced bool }
	} `yaml:"externalRules"`
}

// scaleOut is what docs/scale-out.md shows.
type scaleOut struct {
	text           string
	configurations []*config.File
	objects        map[string]scaledObject // by the type of their trigger
	authentication string                  // the name of the TriggerAuthentication
	hpa            podAutoscaler
	adapter        adapter
}

// documentedScaleOut reads docs/scale-out.md. A field of an object that its reader does not have is an error.
func documentedScaleOut(t *testing.T) *scaleOut {
	t.Helper()
	text, err := os.ReadFile("../../../docs/scale-out.md")
	if err != nil {
		t.Fatal(err)
	}
	s := &scaleOut{text: string(text), objects: map[string]scaledObject{}}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(s.text, -1) {
		for document := range strings.SplitSeq(block[1], "---\n") {
			var err error
			switch {
			case strings.Contains(document, "kind: TriggerAuthentication"):
				var o struct{ Metadata struct{ Name string } }
				err = yaml.Unmarshal([]byte(document), &o)
				s.authentication = o.Metadata.Name
			case strings.Contains(document, "kind: ScaledObject"):
				var o scaledObject
				err = yaml.UnmarshalWithOptions([]byte(document), &o, yaml.Strict())
				if len(o.Spec.Triggers) == 1 {
					s.objects[o.Spec.Triggers[0].Type] = o
				}
			case strings.Contains(document, "kind: HorizontalPodAutoscaler"):
				err = yaml.UnmarshalWithOptions([]byte(document), &s.hpa, yaml.Strict())
			case strings.HasPrefix(document, "externalRules:"):
				err = yaml.UnmarshalWithOptions([]byte(document), &s.adapter, yaml.Strict())
			default:
				var f *config.File
				if f, err = config.Parse("docs/scale-out.md", []byte(document)); err == nil {
					s.configurations = append(s.configurations, f)
				}
			}
			if err != nil {
				t.Fatalf("docs/scale-out.md: this document has a mistake: %s%v", document, err)
			}
		}
	}
	if len(s.configurations) != 2 || len(s.objects) != 2 || s.configurations[1].ScaleOut.Webhook == nil {
		t.Fatalf("docs/scale-out.md shows %d configurations and %d ScaledObjects", len(s.configurations), len(s.objects))
	}
	return s
}

// serve runs the documented server, whose rule one-replica has a pressure of 0.5.
func (s *scaleOut) serve(t *testing.T) *running {
	t.Helper()
	f := s.configurations[0]
	if f.Listen.Admin.Address != "0.0.0.0:9090" || f.Admin.TokenFile == "" {
		t.Fatalf("the documented admin listener is %+v, with %+v", f.Listen.Admin, f.Admin)
	}
	up := parse(t, free)
	f.Listen, f.Upstream = up.Listen, up.Upstream
	r := start(t, f, func(o *Options) { o.Token = token })
	for range 500 { // of 1000 in 10 seconds
		if res, body := r.send(API, http.MethodPost, "/v1/check", `{"rule": "one-replica", "key": []}`); res.StatusCode != http.StatusOK {
			t.Fatalf("a check within the limit failed: %s", body)
		}
	}
	return r
}

// token is the admin token.
const token = "a documented secret"

// near reports whether a pressure is 0.5, or less if part of the window has gone by.
func near(pressure float64) bool { return pressure > 0.2 && pressure < 0.501 }

// KEDA's metrics-api scaler reads the documented ScaledObject's number from a server that runs.
func TestDocumentedMetricsAPIScaler(t *testing.T) {
	t.Parallel()
	s := documentedScaleOut(t)
	trigger := s.objects["metrics-api"].Spec.Triggers[0]
	at, err := url.Parse(trigger.Metadata["url"])
	if err != nil {
		t.Fatal(err)
	}
	if trigger.Metadata["authMode"] != "bearer" || trigger.AuthenticationRef.Name != s.authentication {
		t.Errorf("the trigger authenticates by %+v with %+v", trigger.Metadata, trigger.AuthenticationRef)
	}
	r := s.serve(t)
	for path, location := range map[string]string{
		at.Path:        trigger.Metadata["valueLocation"],
		"/v1/pressure": "pressures.one-replica",
	} {
		if !strings.Contains(s.text, location) {
			t.Errorf("docs/scale-out.md does not show %s", location)
		}
		res, body := r.send(Admin, http.MethodGet, path, "", "Authorization", "Bearer "+token)
		value := gjson.Get(body, location)
		if res.StatusCode != http.StatusOK || value.Type != gjson.Number || !near(value.Num) {
			t.Errorf("%s of %s is %v: %d %s", location, path, value, res.StatusCode, body)
		}
		if res, _ := r.send(Admin, http.MethodGet, path, ""); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s answers %d without a token", path, res.StatusCode)
		}
	}
	if res, _ := r.send(Admin, http.MethodGet, at.Path+"s", "", "Authorization", "Bearer "+token); res.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown rule answers %d", res.StatusCode)
	}
	if _, err := strconv.ParseFloat(trigger.Metadata["targetValue"], 64); err != nil {
		t.Error(err)
	}
}

// query evaluates sum(NAME{LABEL="VALUE"}) over an exposition, as PromQL does for one sample each.
func query(text, promQL string) (sum float64, series int, err error) {
	m := regexp.MustCompile(`^sum\((\w+)\{(\w+)="([^"]*)"\}\)$`).FindStringSubmatch(promQL)
	if m == nil {
		return 0, 0, fmt.Errorf("%s is not a sum of one selector", promQL)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return 0, 0, err
	}
	for _, metric := range families[m[1]].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == m[2] && label.GetValue() == m[3] {
				sum += metric.GetGauge().GetValue()
				series++
			}
		}
	}
	return sum, series, nil
}

// The documented PromQL and the documented HPA select the rule's gauge in what Prometheus scrapes.
func TestDocumentedPrometheusScalers(t *testing.T) {
	t.Parallel()
	s := documentedScaleOut(t)
	r := s.serve(t)
	_, text := r.send(Admin, http.MethodGet, "/metrics", "", "Authorization", "Bearer "+token)
	metric := s.hpa.Spec.Metrics[0].External.Metric
	matchers := fmt.Sprintf("rule=%q", metric.Selector.MatchLabels["rule"])
	ofHPA := strings.NewReplacer("<<.Series>>", metric.Name, "<<.LabelMatchers>>", matchers).
		Replace(strings.TrimSuffix(s.adapter.ExternalRules[0].MetricsQuery, " by (rule)"))
	for _, promQL := range []string{s.objects["prometheus"].Spec.Triggers[0].Metadata["query"], ofHPA} {
		if got, series, err := query(text, promQL); err != nil || series != 1 || !near(got) {
			t.Errorf("%s is %v over %d series, %v", promQL, got, series, err)
		}
	}
	if !strings.HasPrefix(s.adapter.ExternalRules[0].SeriesQuery, metric.Name+"{") {
		t.Errorf("the adapter looks for %s, and the autoscaler for %s", s.adapter.ExternalRules[0].SeriesQuery, metric.Name)
	}
	if got, series, err := query(text, `sum(sluice_rule_pressure_ratio{rule="two-replicas"})`); err != nil || series != 0 {
		t.Errorf("an unknown rule has %d series, %v, %v", series, got, err)
	}
}
