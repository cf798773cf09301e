module github.com/sluicehq/sluice/server

go 1.25
