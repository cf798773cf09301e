module github.com/sluicehq/sluice/policyfile

go 1.25

require (
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/sluicehq/sluice v0.0.0
)

require github.com/sluicehq/sluice/internal/file v0.0.0

require github.com/expr-lang/expr v1.17.8 // indirect

replace github.com/sluicehq/sluice => ../

replace github.com/sluicehq/sluice/internal/file => ../internal/file
