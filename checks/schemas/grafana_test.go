package schemas

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// checkBoard reads a board by the types of Grafana's own SDK, which refuse fields and words that Grafana's schema lacks, and checks what the
// schema demands of their values.
func checkBoard(text string) error {
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	var d dashboard.Dashboard //nolint:staticcheck // the newer schema is for Grafana 12 and later only
	for _, err := range []error{d.UnmarshalJSONStrict([]byte(text)), d.Validate()} {
		var list cog.BuildErrors
		if errors.As(err, &list) && len(list) == 0 {
			continue // both may return an empty list
		}
		if err != nil {
			return err //nolint:wrapcheck // it has the path of the field
		}
	}
	return nil
}

// TestBoardHasGrafanasSchema checks the board by Grafana's schema, and that the check finds mistakes at any depth.
func TestBoardHasGrafanasSchema(t *testing.T) {
	file, err := os.ReadFile("../../contrib/grafana/sluice.json")
	if err != nil {
		t.Fatal(err)
	}
	text := string(file)
	if err := checkBoard(text); err != nil {
		t.Errorf("Grafana's types refuse the board: %v", err)
	}
	for _, mistake := range []struct{ right, wrong, where string }{
		{`"uid": "sluice"`, `"uid": "sluice", "colour": "red"`, "colour"},
		{`"type": "timeseries"`, `"type": "timeseries", "heigth": 3`, "heigth"},
		{`"fillOpacity": 25`, `"fillOpacities": 25`, "fillOpacities"},
		{`"legendFormat": ""`, `"legendFormats": ""`, "legendFormats"},
		{`"graphTooltip": 1`, `"graphTooltip": "shared"`, "graphTooltip"},
	} {
		wrong := strings.Replace(text, mistake.right, mistake.wrong, 1)
		if wrong == text {
			t.Fatalf("the board has no %s", mistake.right)
		}
		var errs cog.BuildErrors
		if err := checkBoard(wrong); !errors.As(err, &errs) || !strings.Contains(err.Error(), mistake.where) {
			t.Errorf("with %s, Grafana's types report %v; want an error about %s", mistake.wrong, err, mistake.where)
		}
	}
}
