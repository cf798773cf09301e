package scaler

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/server/internal/scaler/externalscaler"
)

// The metadata of a trigger that this scaler reads.
const (
	metaRule       = "rule"
	metaTarget     = "target"
	metaActivation = "activation"
)

// KEDA counts in thousandths, and a figure has to fit its integers.
const (
	least = 0.001
	most  = 1e6
)

// target is what a ScaledObject asks for.
type target struct {
	rule       string
	pressure   float64 // to have at most, by one replica
	activation float64 // from above which there is anything to do
}

// targetOf reads the metadata of a trigger. Other entries are KEDA's own.
func targetOf(ref *externalscaler.ScaledObjectRef) (t target, err error) {
	meta := ref.GetScalerMetadata()
	if t.rule = meta[metaRule]; t.rule == "" {
		return t, fmt.Errorf("scaler: the trigger's metadata has no %s; give the name of one in the configuration", metaRule)
	}
	if t.pressure, err = number(meta, metaTarget, least); err != nil {
		return t, err
	}
	if _, ok := meta[metaActivation]; ok {
		t.activation, err = number(meta, metaActivation, 0)
	}
	return t, err
}

// number reads a figure of the metadata.
func number(meta map[string]string, name string, from float64) (float64, error) {
	text, ok := meta[name]
	if !ok {
		return 0, fmt.Errorf(`scaler: the trigger's metadata has no %s; give one such as "0.8", for eight tenths of what the rule gives`, name)
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(n >= from && n <= most) { // not NaN either
		const shown = 32
		if len(text) > shown {
			text = text[:shown] + "…"
		}
		return 0, fmt.Errorf(`scaler: the trigger's %s is %q; give a number from %v to %v, such as "0.8"`, name, text, from, most)
	}
	return n, nil
}

// metric is the name of the metric, of characters that Kubernetes takes in one.
func (t target) metric() string {
	const longest = 100
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, t.rule)
	return "sluice-pressure-" + name[:min(len(name), longest)]
}

// spec is what one replica is for.
func (t target) spec() *externalscaler.MetricSpec {
	return &externalscaler.MetricSpec{MetricName: t.metric(), TargetSize: int64(math.Ceil(t.pressure)), TargetSizeFloat: t.pressure}
}

// value is what there is.
func (t target) value(pressure float64) *externalscaler.MetricValue {
	pressure = min(pressure, most)
	return &externalscaler.MetricValue{MetricName: t.metric(), MetricValue: int64(math.Ceil(pressure)), MetricValueFloat: pressure}
}
