"""Fifteen views over a shop's seven tables, those of silver first: what cleans and joins them, then what a desk reads.

Their shapes are those of a public pipeline by which incremental engines are compared: filters by lists of texts, joins of five
tables, sums of decimals, counts of distinct values, quotients, shares, windows over sums of weeks, a filter by the newest row.
"""

from __future__ import annotations

from collections.abc import Mapping

SILVER: Mapping[str, str] = {
    "known_shoppers": "SELECT * FROM shoppers WHERE id IS NOT NULL AND tier IN ('plain', 'bronze', 'silver', 'gold')",
    "catalogue": "SELECT id AS product, title, category, brand, list_price FROM products WHERE id IS NOT NULL",
    "steps": """
        SELECT c.id, c.shopper, c.visit, c.kind, c.page, c.product, c.device, c.country, c.region, c.at
        FROM clicks c
        WHERE c.kind IS NOT NULL AND c.shopper IS NOT NULL
          AND c.kind IN ('page', 'look', 'basket', 'checkout', 'bought')
    """,
    "full_orders": """
        SELECT o.id, o.shopper, o.state, o.total, o.rebate, o.freight, o.paid_by, o.voucher, o.placed, o.changed,
            s.tier, s.country, s.region, s.joined, l.line_count, l.pieces, l.gross, l.mean_percent_off
        FROM orders o
        JOIN known_shoppers s ON o.shopper = s.id
        JOIN (
            SELECT order_id, count(*) AS line_count, sum(pieces) AS pieces, sum(pieces * price) AS gross,
                avg(percent_off) AS mean_percent_off
            FROM order_lines WHERE pieces > 0 AND price >= 0 GROUP BY order_id
        ) l ON o.id = l.order_id
        WHERE o.id IS NOT NULL AND o.shopper IS NOT NULL AND o.total >= 0
          AND o.state IN ('new', 'accepted', 'sent', 'arrived', 'cancelled', 'returned')
    """,
    "full_lines": """
        SELECT l.id, l.order_id, l.product, l.pieces, l.price, l.percent_off,
            l.pieces * l.price AS gross,
            l.pieces * l.price * (1.0 - coalesce(l.percent_off, 0) / 100.0) AS net,
            l.pieces * (l.price - p.cost) AS margin,
            p.title, p.category, p.brand, p.cost, p.list_price,
            v.id AS vendor, v.name AS vendor_name, v.country AS vendor_country, v.lead_days,
            o.placed, o.state, o.shopper, s.tier
        FROM order_lines l
        JOIN products p ON l.product = p.id
        JOIN vendors v ON p.vendor = v.id
        JOIN orders o ON l.order_id = o.id
        JOIN known_shoppers s ON o.shopper = s.id
        WHERE l.pieces > 0 AND l.price >= 0 AND p.active = true
          AND o.state IN ('new', 'accepted', 'sent', 'arrived', 'cancelled', 'returned')
    """,
    "sold_lines": "SELECT * FROM full_lines WHERE state NOT IN ('cancelled', 'returned')",
    "stock": """
        SELECT m.product, m.warehouse, p.title, p.category, p.brand, v.id AS vendor, v.name AS vendor_name, v.lead_days,
            sum(m.pieces) AS on_hand,
            sum(CASE WHEN m.kind = 'restock' THEN m.pieces ELSE 0 END) AS restocked,
            sum(CASE WHEN m.kind = 'reserve' THEN abs(m.pieces) ELSE 0 END)
                - sum(CASE WHEN m.kind = 'cancel_back' THEN m.pieces ELSE 0 END) AS sold,
            sum(CASE WHEN m.kind = 'return_back' THEN m.pieces ELSE 0 END) AS came_back
        FROM stock_moves m
        JOIN products p ON m.product = p.id
        JOIN vendors v ON p.vendor = v.id
        WHERE m.pieces IS NOT NULL AND m.product IS NOT NULL
        GROUP BY m.product, m.warehouse, p.title, p.category, p.brand, v.id, v.name, v.lead_days
    """,
    "vendor_stock": """
        SELECT vendor, vendor_name, sum(on_hand) AS on_hand, sum(sold) AS sold, sum(restocked) AS restocked,
            sum(came_back) AS came_back
        FROM stock GROUP BY vendor, vendor_name
    """,
}
GOLD: Mapping[str, str] = {
    "order_states": """
        SELECT state, count(DISTINCT id) AS orders, coalesce(sum(total), 0) AS revenue, avg(total) AS mean_total,
            count(DISTINCT shopper) AS shoppers
        FROM full_orders GROUP BY state
    """,
    "vendor_sheet": """
        WITH sales AS (
            SELECT vendor, vendor_name, vendor_country, lead_days, sum(pieces) AS pieces, sum(net) AS net,
                sum(margin) AS margin, sum(margin) / nullif(sum(net), 0) AS margin_share,
                avg(percent_off) AS mean_percent_off,
                CAST(sum(CASE WHEN state = 'arrived' THEN 1 ELSE 0 END) AS DOUBLE)
                    / nullif(CAST(count(*) AS DOUBLE), 0) AS arrived_share
            FROM sold_lines GROUP BY vendor, vendor_name, vendor_country, lead_days
        ),
        sold_products AS (
            SELECT vendor, count(*) AS products
            FROM (SELECT DISTINCT vendor, product FROM sold_lines) GROUP BY vendor
        ),
        served_orders AS (
            SELECT vendor, count(*) AS orders
            FROM (SELECT DISTINCT vendor, order_id FROM sold_lines) GROUP BY vendor
        )
        SELECT a.vendor, a.vendor_name, a.vendor_country, a.lead_days, p.products, o.orders, a.pieces, a.net, a.margin,
            a.margin_share, a.mean_percent_off, a.arrived_share, k.on_hand, k.sold, k.restocked, k.came_back
        FROM sales a
        JOIN vendor_stock k ON a.vendor = k.vendor
        JOIN sold_products p ON a.vendor = p.vendor
        JOIN served_orders o ON a.vendor = o.vendor
    """,
    "stock_cover": """
        SELECT k.product, k.title, k.category, k.brand, k.vendor_name, k.lead_days, k.on_hand, a.pieces, a.daily,
            CASE WHEN a.daily > 0 THEN k.on_hand / a.daily ELSE NULL END AS days_left,
            CASE
                WHEN a.daily > 0 AND (k.on_hand / a.daily) < k.lead_days * 1.5 THEN 'short'
                WHEN a.daily > 0 AND (k.on_hand / a.daily) < k.lead_days * 3.0 THEN 'low'
                ELSE 'fine'
            END AS cover,
            a.net, a.margin
        FROM (
            SELECT product, title, category, brand, vendor_name, lead_days, sum(on_hand) AS on_hand
            FROM stock GROUP BY product, title, category, brand, vendor_name, lead_days
        ) k
        JOIN (
            SELECT product, sum(pieces) AS pieces,
                sum(pieces) / nullif(count(DISTINCT date_trunc('day', placed)), 0) AS daily,
                sum(net) AS net, sum(margin) AS margin
            FROM sold_lines GROUP BY product
        ) a ON k.product = a.product
    """,
    "shortages": "SELECT * FROM stock_cover WHERE cover = 'short'",
    "weeks": """
        SELECT week, category, net, margin, orders, pieces,
            net - lag(net, 1) OVER (PARTITION BY category ORDER BY week) AS net_change,
            (net - lag(net, 1) OVER (PARTITION BY category ORDER BY week))
                / nullif(lag(net, 1) OVER (PARTITION BY category ORDER BY week), 0) AS net_growth,
            avg(net) OVER (PARTITION BY category ORDER BY week
                RANGE BETWEEN INTERVAL 3 WEEKS PRECEDING AND CURRENT ROW) AS net_of_four,
            avg(margin) OVER (PARTITION BY category ORDER BY week
                RANGE BETWEEN INTERVAL 3 WEEKS PRECEDING AND CURRENT ROW) AS margin_of_four,
            sum(net) OVER (PARTITION BY category, extract(YEAR FROM week) ORDER BY week RANGE UNBOUNDED PRECEDING)
                AS net_of_year
        FROM (
            SELECT date_trunc('week', placed) AS week, category, sum(net) AS net, sum(margin) AS margin,
                count(DISTINCT order_id) AS orders, sum(pieces) AS pieces
            FROM sold_lines GROUP BY date_trunc('week', placed), category
        )
    """,
    "losses": """
        SELECT category, week, lost_orders, orders, lost_net, net,
            CAST(sum(lost_orders) OVER (PARTITION BY category ORDER BY week RANGE UNBOUNDED PRECEDING) AS DOUBLE)
                / nullif(CAST(sum(orders) OVER (PARTITION BY category ORDER BY week RANGE UNBOUNDED PRECEDING)
                    AS DOUBLE), 0) AS lost_share,
            sum(lost_net) OVER (PARTITION BY category ORDER BY week RANGE UNBOUNDED PRECEDING) AS lost_so_far,
            CAST(sum(lost_orders) OVER (PARTITION BY category ORDER BY week
                RANGE BETWEEN INTERVAL 3 WEEKS PRECEDING AND CURRENT ROW) AS DOUBLE)
                / nullif(CAST(sum(orders) OVER (PARTITION BY category ORDER BY week
                    RANGE BETWEEN INTERVAL 3 WEEKS PRECEDING AND CURRENT ROW) AS DOUBLE), 0) AS lost_share_of_four
        FROM (
            SELECT category, date_trunc('week', placed) AS week,
                count(DISTINCT CASE WHEN state = 'cancelled' THEN order_id END) AS lost_orders,
                count(DISTINCT order_id) AS orders,
                sum(CASE WHEN state = 'cancelled' THEN net ELSE 0 END) AS lost_net,
                sum(net) AS net
            FROM full_lines GROUP BY category, date_trunc('week', placed)
        )
    """,
    "demand": """
        WITH latest AS (
            SELECT product,
                sum(CASE WHEN kind = 'look' THEN 1 ELSE 0 END) AS looks,
                sum(CASE WHEN kind = 'basket' THEN 1 ELSE 0 END) AS baskets,
                sum(CASE WHEN kind = 'checkout' THEN 1 ELSE 0 END) AS checkouts
            FROM steps
            WHERE product IS NOT NULL AND at > (SELECT max(at) FROM steps) - INTERVAL 1 DAY
            GROUP BY product
        ),
        product_stock AS (
            SELECT product, sum(on_hand) AS on_hand, max(lead_days) AS lead_days FROM stock GROUP BY product
        )
        SELECT d.product, p.title, p.category, p.brand, d.looks, d.baskets, d.checkouts,
            coalesce(k.on_hand, 0) AS on_hand, k.lead_days,
            CAST(greatest(coalesce(k.on_hand, 0), 0) AS DOUBLE) / nullif(CAST(d.baskets AS DOUBLE), 0) AS days_covered,
            CAST(d.checkouts AS DOUBLE) / nullif(CAST(d.looks AS DOUBLE), 0) AS checkout_share,
            CASE
                WHEN d.baskets = 0 THEN 'fine'
                WHEN coalesce(k.on_hand, 0) <= 0 THEN 'sells out'
                WHEN CAST(greatest(k.on_hand, 0) AS DOUBLE) / CAST(d.baskets AS DOUBLE) < coalesce(k.lead_days, 7)
                    THEN 'sells out'
                WHEN CAST(greatest(k.on_hand, 0) AS DOUBLE) / CAST(d.baskets AS DOUBLE) < coalesce(k.lead_days, 7) * 2
                    THEN 'low'
                ELSE 'fine'
            END AS alert
        FROM latest d
        LEFT JOIN catalogue p ON d.product = p.product
        LEFT JOIN product_stock k ON d.product = k.product
    """,
}
VIEWS: Mapping[str, str] = {**SILVER, **GOLD}
"""Each reads tables and views before it."""
