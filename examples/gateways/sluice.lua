-- Lets Sluice decide about the request of nginx, and answers a denial as Sluice does.
local sluice = {}

-- Headers that belong to one connection, and headers that only this gateway writes.
local own = {
    ["connection"] = true, ["content-length"] = true, ["expect"] = true, ["host"] = true, ["keep-alive"] = true,
    ["proxy-connection"] = true, ["te"] = true, ["trailer"] = true, ["transfer-encoding"] = true, ["upgrade"] = true,
    ["x-forwarded-for"] = true, ["x-forwarded-host"] = true, ["x-forwarded-method"] = true, ["x-forwarded-uri"] = true,
    ["x-original-host"] = true, ["x-original-method"] = true, ["x-original-uri"] = true, ["x-real-ip"] = true,
}

-- Headers with which rules mark and degrade requests: the service never gets what clients send.
local marks = {"Sluice-Marked", "Sluice-Degraded"}

-- Headers of the answer that the client gets, if its request passes.
local limits = {["ratelimit"] = "RateLimit", ["ratelimit-policy"] = "RateLimit-Policy"}

local function describe()
    local earlier = ngx.var.http_x_forwarded_for
    local lines = {
        "GET /auth HTTP/1.1",
        "Host: sluice",
        "X-Original-Method: " .. ngx.req.get_method(),
        "X-Original-URI: " .. ngx.var.request_uri,
        "X-Original-Host: " .. ngx.var.host,
        "X-Real-IP: " .. ngx.var.remote_addr,
        "X-Forwarded-For: " .. (earlier and earlier .. ", " or "") .. ngx.var.remote_addr,
    }
    for name, values in pairs(ngx.req.get_headers(0, true)) do
        if not own[name:lower()] then
            for _, value in ipairs(type(values) == "table" and values or {values}) do
                lines[#lines + 1] = name .. ": " .. tostring(value)
            end
        end
    end
    return table.concat(lines, "\r\n") .. "\r\n\r\n"
end

-- Returns the status, the headers and the body of the answer, or nil and an error.
local function ask(host, port, request)
    local socket = ngx.socket.tcp()
    -- Sluice answers after a delay of max_wait at the latest: the answer may take that long, and half a second.
    socket:settimeouts(500, 500, 1500)
    local ok, err = socket:connect(host, port, {pool_size = 64})
    if not ok then return nil, err end
    ok, err = socket:send(request)
    if not ok then return nil, err end
    local line
    line, err = socket:receive("*l")
    if not line then return nil, err end
    local status, headers = tonumber(line:match("^HTTP/1%.1 (%d%d%d)")), {}
    while true do
        line, err = socket:receive("*l")
        if not line then return nil, err end
        if line == "" then break end
        local name, value = line:match("^([^:]+):%s*(.-)%s*$")
        if name then headers[#headers + 1] = {name, value} end
    end
    local length, body, closes = 0, "", false
    for _, h in ipairs(headers) do
        local name = h[1]:lower()
        if name == "content-length" then length = tonumber(h[2]) end
        if name == "connection" and h[2]:lower() == "close" then closes = true end
    end
    if length > 0 then
        body, err = socket:receive(length)
        if not body then return nil, err end
    end
    if closes then socket:close() else socket:setkeepalive(60000, 64) end
    return status, headers, body
end

-- Lets the request pass, or answers it. A delay is over when Sluice answers. A request passes if Sluice does
-- not answer; ngx.exit(ngx.HTTP_INTERNAL_SERVER_ERROR) would refuse it.
function sluice.limit(host, port)
    local status, headers, body = ask(host, port, describe())
    for _, name in ipairs(marks) do ngx.req.clear_header(name) end
    if not status then
        ngx.log(ngx.ERR, "sluice: ", headers)
        return
    end
    if status >= 200 and status < 300 then
        for _, h in ipairs(headers) do
            local name = h[1]:lower()
            if limits[name] then ngx.header[limits[name]] = h[2] end
            for _, mark in ipairs(marks) do
                if name == mark:lower() then ngx.req.set_header(mark, h[2]) end
            end
        end
        return
    end
    ngx.status = status
    for _, h in ipairs(headers) do
        local name = h[1]:lower()
        if name ~= "connection" and name ~= "date" then ngx.header[h[1]] = h[2] end
    end
    ngx.print(body)
    return ngx.exit(status)
end

return sluice
