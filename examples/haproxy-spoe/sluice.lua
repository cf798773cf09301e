-- Answers a request that Sluice denies with the status, the headers and the body of Sluice's answer. A log-format string
-- of HAProxy would change bodies: it writes %0A for the end of a line.
core.register_service("sluice", "http", function(applet)
    local function var(name) return applet:get_var("txn.sluice." .. name) end
    local body = var("body") or ""
    applet:set_status(tonumber(var("status")))
    for name, value in (var("headers") or ""):gmatch("([^:\n]+): ([^\n]*)") do
        applet:add_header(name, value)
    end
    applet:add_header("Content-Length", #body)
    applet:start_response()
    if applet.method ~= "HEAD" then applet:send(body) end
end)
