module github.com/sluicehq/sluice/bench

go 1.25.0

require (
	github.com/didip/tollbooth/v8 v8.0.1
	github.com/envoyproxy/go-control-plane/envoy v1.39.0
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/go-chi/httprate v0.16.1
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/gomodule/redigo v1.8.9
	github.com/juju/ratelimit v1.0.2
	github.com/redis/go-redis/v9 v9.22.0
	github.com/redis/rueidis v1.0.79
	github.com/sethvargo/go-limiter v0.7.1
	github.com/sethvargo/go-redisstore v0.3.0
	github.com/sluicehq/sluice v0.0.0
	github.com/sluicehq/sluice/checks v0.0.0
	github.com/sluicehq/sluice/goredisstore v0.0.0
	github.com/sluicehq/sluice/rueidisstore v0.0.0
	github.com/throttled/throttled/v2 v2.15.0
	github.com/ulule/limiter/v3 v3.11.2
	golang.org/x/sys v0.47.0
	golang.org/x/time v0.14.0
	google.golang.org/grpc v1.84.0
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/cncf/xds/go v0.0.0-20260202195803-dba9d589def2 // indirect
	github.com/envoyproxy/protoc-gen-validate v1.3.3 // indirect
	github.com/go-pkgz/expirable-cache/v3 v3.0.0 // indirect
	github.com/hashicorp/golang-lru v0.5.4 // indirect
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800 // indirect
)

replace (
	github.com/sluicehq/sluice => ../
	github.com/sluicehq/sluice/checks => ../checks
	github.com/sluicehq/sluice/goredisstore => ../goredisstore
	github.com/sluicehq/sluice/rueidisstore => ../rueidisstore
)
