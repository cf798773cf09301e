module github.com/sluicehq/sluice/policyfile

go 1.25
