module github.com/sluicehq/sluice/internal/file

go 1.25

require (
	github.com/expr-lang/expr v1.17.8
	github.com/goccy/go-yaml v1.19.2
	github.com/sluicehq/sluice v0.0.0
)

replace github.com/sluicehq/sluice => ../../
